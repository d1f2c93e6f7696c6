//! `format`, as a filter and as a method. A pattern may name one argument in many fields, so the length of each field
//! is computed before the text is built.

use minijinja::formatting::{FormatStyle, format as format_text};
use minijinja::value::{Kwargs, Rest, Value as Native, ValueKind, from_args};
use minijinja::{Environment, Error};

use crate::template::budget::{self, ITEM_WORK};
use crate::template::operators::printed_bytes;
use crate::template::session;

/// Maximum padding of a field.
const WIDTH_MAX: usize = 4096;
/// Maximum number of bytes of one padding character.
const CHARACTER_BYTES_MAX: usize = 4;
/// Maximum length of a formatted number without padding.
const NUMBER_BYTES_MAX: usize = 512;

pub(crate) fn register(env: &mut Environment<'static>) {
    env.add_filter("format", |value: &str, args: Rest<Native>| {
        format(FormatStyle::Printf, value, &args)
    });
}

/// Inserts arguments into the fields of a pattern: `"%s of %d" | format(a, b)` or `"{} of {}".format(a, b)`.
pub(crate) fn format(style: FormatStyle, pattern: &str, args: &[Native]) -> Result<Native, Error> {
    check_widths(pattern)?;
    let mut bytes = pattern.len();
    match style {
        FormatStyle::Printf => {
            for arg in args {
                bytes = add_field(bytes, arg)?;
            }
            for key in keys(pattern) {
                let keywords = args
                    .first()
                    .filter(|arg| arg.kind() == ValueKind::Map)
                    .and_then(|arg| arg.get_attr(key).ok());
                bytes = add_field(bytes, &keywords.unwrap_or_default())?;
            }
        }
        FormatStyle::StrFormat => {
            let (positional, keywords): (&[Native], Kwargs) = from_args(args)?;
            for arg in positional {
                bytes = add_field(bytes, arg)?;
            }
            for path in paths(pattern) {
                bytes = add_field(bytes, &find(path, positional, &keywords))?;
            }
        }
    }
    format_text(style, pattern, args).map(Native::from)
}

/// Returns the length of the text after one more field.
fn add_field(bytes: usize, value: &Native) -> Result<usize, Error> {
    session::charge_work(ITEM_WORK)?;
    let field = match value.kind() {
        ValueKind::Number | ValueKind::Bool | ValueKind::None => NUMBER_BYTES_MAX,
        _ => printed_bytes(value)?,
    };
    let bytes = bytes.saturating_add(field);
    session::check_room(bytes)?;
    Ok(bytes)
}

/// The keys that a pattern reads from a map: `a` in `%(a)s`.
fn keys(pattern: &str) -> impl Iterator<Item = &str> {
    pattern
        .split("%(")
        .skip(1)
        .filter_map(|field| field.split_once(')').map(|(key, _)| key))
}

/// The paths at the start of the fields: `0.a` in `{0.a:>9}`. A field without a path takes the next argument and is
/// counted with the arguments.
fn paths(pattern: &str) -> impl Iterator<Item = &str> {
    pattern.split('{').skip(1).filter_map(|field| {
        let end = field.find([':', '}']).unwrap_or(field.len());
        field.get(..end).filter(|path| !path.is_empty())
    })
}

/// Returns the argument, or the value in it, at a path.
fn find(path: &str, positional: &[Native], keywords: &Kwargs) -> Native {
    let mut parts = path.split(['.', '[', ']']).filter(|part| !part.is_empty());
    let first = parts.next().unwrap_or_default();
    let mut argument = match first.parse::<usize>() {
        Ok(index) => positional.get(index).cloned(),
        Err(_) => keywords.peek::<Native>(first).ok(),
    };
    for part in parts {
        argument = argument.and_then(|value| match part.parse::<usize>() {
            Ok(index) => value.get_item_by_index(index).ok(),
            Err(_) => value.get_attr(part).ok(),
        });
    }
    argument.unwrap_or_default()
}

/// Rejects excessive padding: a width takes a few digits, but its padding as many bytes as the number says.
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
            return Err(budget::limit_error("a format's width is too large"));
        }
    }
    let of_character = if pattern.is_ascii() { 1 } else { CHARACTER_BYTES_MAX };
    session::charge_allocation(padded.saturating_mul(of_character))
}
