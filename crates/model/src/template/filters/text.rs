//! Text: replacing, joining, padding, quoting, patterns.

use minijinja::value::{Kwargs, Rest, Value as Native, ValueKind};
use minijinja::{Environment, Error};

use crate::template::budget;
use crate::template::operators::print;
use crate::template::session;

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
        if let Some(digit) = c.to_digit(10) {
            digits = digits.saturating_mul(10).saturating_add(digit as usize);
        } else {
            padded = padded.saturating_add(digits);
            digits = 0;
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
