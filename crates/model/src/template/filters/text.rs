//! Text: replacing, joining, padding, quoting, patterns.

use minijinja::value::{Kwargs, Rest, Value as Native, ValueKind};
use minijinja::{Environment, Error, ErrorKind};
use regex::Regex;

use crate::template::budget;
use crate::template::operators::print;
use crate::template::session;

/// A compiled pattern may take this much.
const PATTERN_BYTES_MAX: usize = 256 * 1024;
/// The widest padding that `format` may ask for.
const WIDTH_MAX: usize = 4096;

pub(crate) fn register(env: &mut Environment<'static>) {
    env.add_filter("replace", replace);
    env.add_filter("join", join);
    env.add_filter("indent", indent);
    env.add_filter("format", format);
    env.add_filter("escape", |value: &Native| {
        print(value).map(|text| escape(&text))
    });
    env.add_filter("e", |value: &Native| print(value).map(|text| escape(&text)));
    env.add_filter("truncate", truncate);
    env.add_filter("wordwrap", wordwrap);
    env.add_filter("center", center);
    env.add_filter("string", |value: &Native| print(value));
    env.add_filter("quote", |value: &Native| {
        print(value).map(|text| quote(&text))
    });
    env.add_filter("regex_replace", regex_replace);
    env.add_filter("regex_search", regex_search);
    env.add_filter("regex_findall", regex_findall);
    env.add_filter("bool", boolean);
    env.add_filter(
        "ternary",
        |value: &Native, yes: Native, no: Native| if value.is_true() { yes } else { no },
    );
}

pub(crate) fn replace(
    value: &Native,
    from: &Native,
    to: &Native,
    count: Option<usize>,
) -> Result<String, Error> {
    let (text, from, to) = (print(value)?, print(from)?, print(to)?);
    let count = count.unwrap_or(usize::MAX);
    let found = if from.is_empty() {
        text.chars().count() + 1
    } else {
        text.matches(&from).count()
    };
    session::charge(
        text.len()
            .saturating_add(found.min(count).saturating_mul(to.len())),
    )?;
    Ok(text.replacen(&from, &to, count))
}

pub(crate) fn join(
    value: &Native,
    joiner: Option<&str>,
    attribute: Option<&str>,
    kwargs: Kwargs,
) -> Result<String, Error> {
    let named: Option<&str> = kwargs.get("attribute")?;
    let joiner = match joiner {
        Some(joiner) => joiner,
        None => kwargs.get::<Option<&str>>("d")?.unwrap_or_default(),
    };
    kwargs.assert_all_used()?;
    let attribute = attribute.or(named);
    let mut text = String::new();
    for (index, item) in value.try_iter()?.checked().enumerate() {
        let mut item = item?;
        if let Some(path) = attribute {
            for part in path.split('.') {
                item = item.get_attr(part)?;
            }
        }
        let part = print(&item)?;
        session::charge(part.len().saturating_add(joiner.len()))?;
        if index > 0 {
            text.push_str(joiner);
        }
        text.push_str(&part);
    }
    Ok(text)
}

fn indent(
    value: &Native,
    width: Option<&Native>,
    first: Option<bool>,
    blank: Option<bool>,
    kwargs: Kwargs,
) -> Result<String, Error> {
    let text = print(value)?;
    let width = match width {
        Some(width) => Some(width.clone()),
        None => kwargs.get("width")?,
    };
    let first = first.or(kwargs.get("first")?).unwrap_or(false);
    let blank = blank.or(kwargs.get("blank")?).unwrap_or(false);
    kwargs.assert_all_used()?;
    let margin = match width {
        None => "    ".to_owned(),
        Some(width) if width.kind() == ValueKind::String => print(&width)?,
        Some(width) => {
            let width = width.as_usize().unwrap_or(0);
            session::charge(width)?;
            " ".repeat(width)
        }
    };
    session::charge(
        (text.matches('\n').count() + 1)
            .saturating_mul(margin.len())
            .saturating_add(text.len()),
    )?;
    let mut indented = String::with_capacity(text.len());
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            indented.push('\n');
        }
        let wanted = if index == 0 {
            first
        } else {
            blank || !line.is_empty()
        };
        if wanted {
            indented.push_str(&margin);
        }
        indented.push_str(line);
    }
    Ok(indented)
}

/// `"%s of %d" | format(a, b)`.
fn format(value: &str, args: Rest<Native>) -> Result<Native, Error> {
    check_widths(value)?;
    for arg in args.iter() {
        session::charge(print(arg)?.len())?;
    }
    minijinja::formatting::format(minijinja::formatting::FormatStyle::Printf, value, &args)
        .map(Native::from)
}

/// Refuses paddings without reason: a width is a few digits to write and as many bytes as it says.
pub(crate) fn check_widths(pattern: &str) -> Result<(), Error> {
    let mut digits = 0_usize;
    let mut padded = 0_usize;
    for c in pattern.chars() {
        match c.to_digit(10) {
            Some(digit) => digits = digits.saturating_mul(10).saturating_add(digit as usize),
            None => {
                padded = padded.saturating_add(digits);
                digits = 0;
            }
        }
        if digits > WIDTH_MAX || c == '*' {
            return Err(budget::exceeded("a format's width is too large"));
        }
    }
    session::charge(padded)
}

fn center(value: &Native, width: Option<usize>) -> Result<String, Error> {
    let text = print(value)?;
    let width = width.unwrap_or(80);
    session::charge(width.saturating_add(text.len()))?;
    let missing = width.saturating_sub(text.chars().count());
    // Python puts the odd space on the left when the width is odd.
    let left = missing / 2 + (missing & width & 1);
    Ok(format!(
        "{}{text}{}",
        " ".repeat(left),
        " ".repeat(missing - left)
    ))
}

/// Text for HTML.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\'' => escaped.push_str("&#39;"),
            '"' => escaped.push_str("&#34;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Cuts text to `length`, at a word's end unless `killwords`; up to `leeway` more is left alone.
fn truncate(
    value: &Native,
    length: Option<usize>,
    killwords: Option<bool>,
    end: Option<&str>,
    kwargs: Kwargs,
) -> Result<String, Error> {
    let text = print(value)?;
    let length = length.or(kwargs.get("length")?).unwrap_or(255);
    let killwords = killwords.or(kwargs.get("killwords")?).unwrap_or(false);
    let end = end.or(kwargs.get("end")?).unwrap_or("...");
    let leeway = kwargs.get::<Option<usize>>("leeway")?.unwrap_or(5);
    kwargs.assert_all_used()?;
    if text.chars().count() <= length.saturating_add(leeway) {
        return Ok(text);
    }
    let cut: String = text
        .chars()
        .take(length.saturating_sub(end.chars().count()))
        .collect();
    let kept = if killwords {
        cut.as_str()
    } else {
        cut.rsplit_once(' ')
            .map_or(cut.as_str(), |(words, _)| words)
    };
    session::charge(kept.len() + end.len())?;
    Ok(format!("{kept}{end}"))
}

fn wordwrap(
    value: &Native,
    width: Option<usize>,
    break_long_words: Option<bool>,
    kwargs: Kwargs,
) -> Result<Native, Error> {
    let text = print(value)?;
    let width = width.or(kwargs.get("width")?).unwrap_or(79);
    let break_long_words = break_long_words
        .or(kwargs.get("break_long_words")?)
        .unwrap_or(true);
    let wrap = kwargs.get::<Option<&str>>("wrapstring")?.unwrap_or("\n");
    let on_hyphens = kwargs
        .get::<Option<bool>>("break_on_hyphens")?
        .unwrap_or(true);
    kwargs.assert_all_used()?;
    session::charge(text.len().saturating_mul(wrap.len().max(1)))?;
    let options = Kwargs::from_iter([
        ("width", Native::from(width)),
        ("break_long_words", Native::from(break_long_words)),
        ("wrapstring", Native::from(wrap)),
        ("break_on_hyphens", Native::from(on_hyphens)),
    ]);
    minijinja_contrib::filters::wordwrap(&Native::from(text), options)
}

/// A word of the shell, quoted where it needs to be.
fn quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./-_".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\"'\"'"))
}

fn pattern(text: &str, ignore_case: bool, multiline: bool) -> Result<Regex, Error> {
    regex::RegexBuilder::new(text)
        .case_insensitive(ignore_case)
        .multi_line(multiline)
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX)
        .build()
        .map_err(|error| {
            Error::new(
                ErrorKind::InvalidOperation,
                format!("`{text}` is not a pattern"),
            )
            .with_source(error)
        })
}

fn flags(kwargs: &Kwargs) -> Result<(bool, bool), Error> {
    let ignore_case: Option<bool> = kwargs.get("ignorecase")?;
    let multiline: Option<bool> = kwargs.get("multiline")?;
    kwargs.assert_all_used()?;
    Ok((ignore_case.unwrap_or(false), multiline.unwrap_or(false)))
}

/// `\1` and `\g<name>` refer to groups, as in Python.
fn regex_replace(
    value: &Native,
    find: &str,
    with: Option<&str>,
    kwargs: Kwargs,
) -> Result<String, Error> {
    let text = print(value)?;
    let (ignore_case, multiline) = flags(&kwargs)?;
    let regex = pattern(find, ignore_case, multiline)?;
    let template = group_references(with.unwrap_or_default());
    let mut replaced = String::new();
    let mut end = 0;
    for captures in regex.captures_iter(&text) {
        let Some(found) = captures.get(0) else {
            continue;
        };
        replaced.push_str(&text[end..found.start()]);
        let before = replaced.len();
        captures.expand(&template, &mut replaced);
        session::charge(replaced.len() - before + 1)?;
        end = found.end();
    }
    replaced.push_str(&text[end..]);
    Ok(replaced)
}

fn group_references(with: &str) -> String {
    let mut template = String::with_capacity(with.len());
    let mut chars = with.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek().copied()) {
            ('$', _) => template.push_str("$$"),
            ('\\', Some(digit)) if digit.is_ascii_digit() => {
                template.push_str(&format!("${{{digit}}}"));
                chars.next();
            }
            ('\\', Some('g')) => {
                chars.next();
                let name: String = chars
                    .by_ref()
                    .skip_while(|c| *c == '<')
                    .take_while(|c| *c != '>')
                    .collect();
                template.push_str(&format!("${{{name}}}"));
            }
            ('\\', Some('\\')) => {
                template.push('\\');
                chars.next();
            }
            (c, _) => template.push(c),
        }
    }
    template
}

/// The first match, or its only group, or all its groups; none where nothing matches.
fn regex_search(value: &Native, find: &str, kwargs: Kwargs) -> Result<Native, Error> {
    let text = print(value)?;
    let (ignore_case, multiline) = flags(&kwargs)?;
    let regex = pattern(find, ignore_case, multiline)?;
    Ok(regex
        .captures(&text)
        .map_or(Native::from(()), |captures| groups(&captures)))
}

fn regex_findall(value: &Native, find: &str, kwargs: Kwargs) -> Result<Native, Error> {
    let text = print(value)?;
    let (ignore_case, multiline) = flags(&kwargs)?;
    let regex = pattern(find, ignore_case, multiline)?;
    let mut found = Vec::new();
    for captures in regex.captures_iter(&text) {
        session::charge(budget::ITEM_BYTES)?;
        found.push(groups(&captures));
    }
    Ok(Native::from(found))
}

fn groups(captures: &regex::Captures<'_>) -> Native {
    let group = |index| {
        captures
            .get(index)
            .map_or(Native::from(()), |found| Native::from(found.as_str()))
    };
    match captures.len() {
        1 => group(0),
        2 => group(1),
        count => Native::from((1..count).map(group).collect::<Vec<_>>()),
    }
}

/// Texts that mean yes are true; any other value has its own truth.
fn boolean(value: &Native) -> bool {
    match value.as_str() {
        Some(text) => matches!(
            text.trim().to_ascii_lowercase().as_str(),
            "true" | "yes" | "on" | "1" | "y" | "t"
        ),
        None => value.is_true(),
    }
}
