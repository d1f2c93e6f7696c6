//! Text filters and methods of the library. They check first how long the result will be. Others strip or split a text.

use std::borrow::Cow;
use std::collections::HashSet;

use minijinja::value::{StringInput, Value as Native, ValueKind, from_args};
use minijinja::{Environment, Error, filters};

use crate::template::budget::ITEM_BYTES;
use crate::template::operators::to_text;
use crate::template::session;

pub(crate) fn register(env: &mut Environment<'static>) {
    env.add_filter("upper", |text: StringInput<'_>| with_room(text, filters::upper));
    env.add_filter("lower", |text: StringInput<'_>| with_room(text, filters::lower));
    env.add_filter("capitalize", |text: StringInput<'_>| {
        with_room(text, filters::capitalize)
    });
    env.add_filter("title", |text: Cow<'_, str>| {
        session::check_room(text.len())?;
        Ok::<_, Error>(filters::title(text))
    });
    env.add_filter("safe", |value: &Native| {
        let text = to_text(value)?;
        session::check_room(text.len())?;
        Ok::<_, Error>(Native::from_safe_string(text.into_owned()))
    });
    env.add_filter("striptags", |value: &Native| {
        let text = to_text(value)?;
        session::check_room(text.len())?;
        Ok::<_, Error>(minijinja_contrib::filters::striptags(text.into_owned()))
    });
    env.add_filter("trim", trim);
    env.add_filter("split", |value: &Native, separator: Option<&str>, most: Option<i64>| {
        split(value, separator, most)
    });
    env.add_filter("lines", |value: &Native| split_lines(value, false));
}

/// Builds a text of about the same length with `build`; a change of case makes a character at most three times as long.
fn with_room<'a>(text: StringInput<'a>, build: fn(StringInput<'a>) -> Native) -> Result<Native, Error> {
    session::check_room(text.as_str().len())?;
    Ok(build(text))
}

/// The methods of a text that build a text or a list. The other methods only read the text.
pub(crate) fn method(value: &Native, name: &str, args: &[Native]) -> Option<Result<Native, Error>> {
    let text = value.as_str()?;
    Some(match name {
        "strip" => strip_method(text, args, StripEnds::BOTH),
        "lstrip" => strip_method(text, args, StripEnds::START),
        "rstrip" => strip_method(text, args, StripEnds::END),
        "split" => from_args(args).and_then(|(separator, most)| split(value, separator, most)),
        "splitlines" => {
            from_args(args).and_then(|(with_ends,): (Option<bool>,)| split_lines(value, with_ends.unwrap_or(false)))
        }
        _ => return None,
    })
}

fn trim(value: &Native, characters: Option<&Native>) -> Result<Native, Error> {
    let text = to_text(value)?;
    let characters = characters.filter(|characters| !characters.is_none());
    let characters = characters.map(to_text).transpose()?;
    let stripped = strip(&text, characters.as_deref(), StripEnds::BOTH)?;
    Ok(if value.kind() == ValueKind::String && value.is_safe() {
        Native::from_safe_string(stripped.to_owned())
    } else {
        Native::from(stripped)
    })
}

/// The ends of a text that are stripped.
#[derive(Debug, Clone, Copy)]
struct StripEnds {
    at_start: bool,
    at_end: bool,
}

impl StripEnds {
    const START: Self = Self {
        at_start: true,
        at_end: false,
    };
    const END: Self = Self {
        at_start: false,
        at_end: true,
    };
    const BOTH: Self = Self {
        at_start: true,
        at_end: true,
    };
}

fn strip_method(text: &str, args: &[Native], ends: StripEnds) -> Result<Native, Error> {
    let (characters,): (Option<&str>,) = from_args(args)?;
    strip(text, characters, ends).map(Native::from)
}

/// Strips the given characters, or spaces, from the start, the end or both. Reads each character once.
fn strip<'a>(text: &'a str, characters: Option<&str>, ends: StripEnds) -> Result<&'a str, Error> {
    let characters = match characters {
        Some(characters) => {
            session::charge_work(characters.len())?;
            Some(characters.chars().collect::<HashSet<char>>())
        }
        None => None,
    };
    let is_stripped = |c: char| match &characters {
        Some(characters) => characters.contains(&c),
        None => c.is_whitespace(),
    };
    let mut stripped = text;
    if ends.at_start {
        stripped = stripped.trim_start_matches(is_stripped);
    }
    if ends.at_end {
        stripped = stripped.trim_end_matches(is_stripped);
    }
    session::check_room(stripped.len())?;
    Ok(stripped)
}

/// Splits a text. The parts are counted before a list is built.
fn split(value: &Native, separator: Option<&str>, most: Option<i64>) -> Result<Native, Error> {
    let text = to_text(value)?;
    let parts = match separator {
        Some(separator) => text.matches(separator).count() + 1,
        None => text.split_whitespace().count(),
    };
    let most_parts = most.and_then(|most| usize::try_from(most).ok());
    let parts = most_parts.map_or(parts, |most| parts.min(most.saturating_add(1)));
    session::check_room(parts.saturating_mul(ITEM_BYTES))?;
    filters::split(value, separator.map(Into::into), most)
}

/// A text's lines, with or without the ends of lines.
fn split_lines(value: &Native, with_ends: bool) -> Result<Native, Error> {
    let text = to_text(value)?;
    let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
    session::check_room(lines.saturating_mul(ITEM_BYTES))?;
    if with_ends {
        return Ok(text.split_inclusive('\n').map(Native::from).collect());
    }
    filters::lines(value)
}
