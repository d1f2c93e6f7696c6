//! Text: replacing, joining, padding, wrapping, quoting.

use std::borrow::Cow;
use std::fmt;

use minijinja::value::{Kwargs, Value as Native, ValueKind};
use minijinja::{Environment, Error};

use crate::template::budget::{self, ITEM_BYTES, ITEM_WORK};
use crate::template::operators::to_text;
use crate::template::session;

pub(crate) fn register(env: &mut Environment<'static>) {
    env.add_filter("replace", replace);
    env.add_filter("join", join);
    env.add_filter("indent", indent);
    env.add_filter("escape", escape);
    env.add_filter("e", escape);
    env.add_filter("truncate", truncate);
    env.add_filter("wordwrap", wordwrap);
    env.add_filter("center", center);
    env.add_filter("pprint", pprint);
    env.add_filter("string", |value: &Native| match to_text(value)? {
        Cow::Borrowed(_) => Ok::<_, Error>(value.clone()),
        Cow::Owned(text) => Ok(Native::from(text)),
    });
    env.add_filter("quote", quote);
    env.add_filter("bool", boolean);
    env.add_filter(
        "ternary",
        |value: &Native, yes: Native, no: Native| if value.is_true() { yes } else { no },
    );
}

pub(crate) fn replace(value: &Native, from: &Native, to: &Native, count: Option<usize>) -> Result<String, Error> {
    let (text, from, to) = (to_text(value)?, to_text(from)?, to_text(to)?);
    let count = count.unwrap_or(usize::MAX);
    let occurrences = if from.is_empty() {
        text.chars().count() + 1
    } else {
        text.matches(&*from).count()
    };
    session::charge_allocation(
        text.len()
            .saturating_add(occurrences.min(count).saturating_mul(to.len())),
    )?;
    Ok(text.replacen(&*from, &to, count))
}

pub(crate) fn join(
    value: &Native,
    joiner: Option<&str>,
    attribute: Option<&str>,
    kwargs: Kwargs,
) -> Result<String, Error> {
    let attribute_name: Option<&str> = kwargs.get("attribute")?;
    let joiner = match joiner {
        Some(joiner) => joiner,
        None => kwargs.get::<Option<&str>>("d")?.unwrap_or_default(),
    };
    kwargs.assert_all_used()?;
    let attribute = attribute.or(attribute_name);
    let mut text = String::new();
    for (index, item) in value.try_iter()?.checked().enumerate() {
        let mut item = item?;
        if let Some(path) = attribute {
            for part in path.split('.') {
                session::charge_work(ITEM_WORK)?;
                item = item.get_attr(part)?;
            }
        }
        let part = to_text(&item)?;
        session::charge_allocation(part.len().saturating_add(joiner.len()))?;
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
    let text = to_text(value)?;
    let width = match width {
        Some(width) => Some(width.clone()),
        None => kwargs.get("width")?,
    };
    let first = first.or(kwargs.get("first")?).unwrap_or(false);
    let blank = blank.or(kwargs.get("blank")?).unwrap_or(false);
    kwargs.assert_all_used()?;
    let margin = match width {
        None => "    ".to_owned(),
        Some(width) if width.kind() == ValueKind::String => to_text(&width)?.into_owned(),
        Some(width) => {
            let width = width.as_usize().unwrap_or(0);
            session::charge_allocation(width)?;
            " ".repeat(width)
        }
    };
    session::charge_allocation(
        (text.matches('\n').count() + 1)
            .saturating_mul(margin.len())
            .saturating_add(text.len()),
    )?;
    let mut indented = String::with_capacity(text.len());
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            indented.push('\n');
        }
        let prefix = if index == 0 { first } else { blank || !line.is_empty() };
        if prefix {
            indented.push_str(&margin);
        }
        indented.push_str(line);
    }
    Ok(indented)
}

fn center(value: &Native, width: Option<usize>) -> Result<String, Error> {
    let text = to_text(value)?;
    let width = width.unwrap_or(80);
    session::charge_allocation(width.saturating_add(text.len()))?;
    let missing = width.saturating_sub(text.chars().count());
    // If the width is odd, Python puts the extra space on the left.
    let left = missing / 2 + (missing & width & 1);
    Ok(format!("{}{text}{}", " ".repeat(left), " ".repeat(missing - left)))
}

/// Text for HTML.
fn escape(value: &Native) -> Result<String, Error> {
    substitute(&to_text(value)?, |c| match c {
        '&' => Some("&amp;"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        '\'' => Some("&#39;"),
        '"' => Some("&#34;"),
        _ => None,
    })
}

/// Replaces some characters of a text. The length is computed first.
pub(crate) fn substitute(text: &str, replacement: impl Fn(char) -> Option<&'static str>) -> Result<String, Error> {
    let length = |c: char| replacement(c).map_or(c.len_utf8(), str::len);
    let bytes = text.chars().map(length).sum();
    session::check_room(bytes)?;
    let mut substituted = String::with_capacity(bytes);
    for c in text.chars() {
        match replacement(c) {
            Some(replacement) => substituted.push_str(replacement),
            None => substituted.push(c),
        }
    }
    Ok(substituted)
}

/// Truncates text to `length`, at a word boundary unless `killwords`; a text that is at most `leeway` longer is not
/// truncated.
fn truncate(
    value: &Native,
    length: Option<usize>,
    killwords: Option<bool>,
    end: Option<&str>,
    kwargs: Kwargs,
) -> Result<String, Error> {
    let text = to_text(value)?;
    let length = length.or(kwargs.get("length")?).unwrap_or(255);
    let killwords = killwords.or(kwargs.get("killwords")?).unwrap_or(false);
    let end = end.or(kwargs.get("end")?).unwrap_or("...");
    let leeway = kwargs.get::<Option<usize>>("leeway")?.unwrap_or(5);
    kwargs.assert_all_used()?;
    if text.chars().count() <= length.saturating_add(leeway) {
        session::check_room(text.len())?;
        return Ok(text.into_owned());
    }
    let length = length.saturating_sub(end.chars().count());
    let bytes = text.char_indices().nth(length).map_or(text.len(), |offset| offset.0);
    let prefix = text.get(..bytes).unwrap_or_default();
    let shortened = if killwords {
        prefix
    } else {
        prefix.rsplit_once(' ').map_or(prefix, |(words, _)| words)
    };
    session::charge_allocation(shortened.len() + end.len())?;
    Ok(format!("{shortened}{end}"))
}

fn wordwrap(
    value: &Native,
    width: Option<usize>,
    break_long_words: Option<bool>,
    kwargs: Kwargs,
) -> Result<Native, Error> {
    let text = to_text(value)?;
    let width = width.or(kwargs.get("width")?).unwrap_or(79);
    let break_long_words = break_long_words.or(kwargs.get("break_long_words")?).unwrap_or(true);
    let wrap = kwargs.get::<Option<&str>>("wrapstring")?.unwrap_or("\n");
    let on_hyphens = kwargs.get::<Option<bool>>("break_on_hyphens")?.unwrap_or(true);
    kwargs.assert_all_used()?;
    check_wrapped(&text, width, wrap)?;
    let options = Kwargs::from_iter([
        ("width", Native::from(width)),
        ("break_long_words", Native::from(break_long_words)),
        ("wrapstring", Native::from(wrap)),
        ("break_on_hyphens", Native::from(on_hyphens)),
    ]);
    minijinja_contrib::filters::wordwrap(&Native::from(text.into_owned()), options)
}

/// Checks that wrapped text can be built: the parts into which the longest line is divided, and the text with a `wrap`
/// between two parts.
fn check_wrapped(text: &str, width: usize, wrap: &str) -> Result<(), Error> {
    let parts = |line: &str| {
        let break_points = line.bytes().filter(|byte| matches!(byte, b' ' | b'-'));
        break_points.count() + line.len() / width.max(1) + 1
    };
    let longest = text.lines().map(parts).max().unwrap_or_default();
    session::check_room(longest.saturating_mul(ITEM_BYTES))?;
    let parts_total: usize = text.lines().map(parts).sum();
    session::check_room(text.len().saturating_add(parts_total.saturating_mul(wrap.len())))
}

/// Formats a value over several lines, with a margin that grows with the depth.
fn pprint(value: &Native) -> Result<String, Error> {
    let mut text = PrettyText(String::new());
    fmt::write(&mut text, format_args!("{value:#?}")).map_err(|_| budget::limit_error("a value's text is too long"))?;
    Ok(text.0)
}

/// Text that stops growing at the budget. Each part is written through as many margins as the value is deep.
struct PrettyText(String);

impl fmt::Write for PrettyText {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        session::charge_work(2 * ITEM_WORK)
            .and_then(|()| session::check_room(self.0.len() + part.len()))
            .map_err(|_| fmt::Error)?;
        self.0.push_str(part);
        Ok(())
    }
}

/// A shell word, quoted if necessary.
fn quote(value: &Native) -> Result<String, Error> {
    let text = to_text(value)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./-_".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        session::check_room(text.len())?;
        return Ok(text.into_owned());
    }
    let quoted = substitute(&text, |c| (c == '\'').then_some("'\"'\"'"))?;
    Ok(format!("'{quoted}'"))
}

/// Texts such as `yes` are true; any other value has its usual truth.
fn boolean(value: &Native) -> bool {
    match value.as_str() {
        Some(text) => ["true", "yes", "on", "1", "y", "t"]
            .iter()
            .any(|yes| text.trim().eq_ignore_ascii_case(yes)),
        None => value.is_true(),
    }
}
