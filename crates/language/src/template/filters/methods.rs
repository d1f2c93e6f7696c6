//! Methods of Python values: `.get()`, `.items()`, `.split()` and others.

use minijinja::formatting::FormatStyle;
use minijinja::value::{Kwargs, Value as Native, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State};

use super::{formatting, strings, text};
use crate::template::operators::{self, items};
use crate::template::session;

/// Methods of texts that build a text of about the same length.
const SAME_LENGTH: &[&str] = &["upper", "lower", "title", "capitalize"];

/// Calls a method on a value. Values are not changed: `append` returns a longer list.
pub(crate) fn call_method(
    state: &mut State<'_, '_>,
    value: &Native,
    name: &str,
    args: &[Native],
) -> Result<Native, Error> {
    let is_text = value.kind() == ValueKind::String;
    if let Some(result) = strings::method(value, name, args) {
        let result = result?;
        session::charge_allocation(operators::value_cost(&result))?;
        return Ok(result);
    }
    let result = match name {
        "replace" if is_text => {
            let (from, to, count): (&Native, &Native, Option<usize>) = from_args(args)?;
            text::replace(value, from, to, count).map(Native::from)?
        }
        "join" if is_text => {
            let (list,): (&Native,) = from_args(args)?;
            let none = std::iter::empty::<(&str, Native)>().collect::<Kwargs>();
            text::join(list, value.as_str(), None, none).map(Native::from)?
        }
        "format" if is_text => {
            let pattern = value.as_str().unwrap_or_default();
            formatting::format(FormatStyle::StrFormat, pattern, args)?
        }
        "append" if operators::is_list(value) => {
            let (item,): (Native,) = from_args(args)?;
            let mut longer = items(value)?;
            longer.push(item);
            Native::from(longer)
        }
        "zfill" if is_text => {
            let (width,): (usize,) = from_args(args)?;
            zfill(value.as_str().unwrap_or_default(), width)?
        }
        _ => {
            if SAME_LENGTH.contains(&name) {
                session::check_room(value.as_str().map_or(0, str::len))?;
            }
            call_library_method(state, value, name, args)?
        }
    };
    session::charge_allocation(operators::value_cost(&result))?;
    Ok(result)
}

fn call_library_method(
    state: &mut State<'_, '_>,
    value: &Native,
    name: &str,
    args: &[Native],
) -> Result<Native, Error> {
    minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args).map_err(|error| {
        if error.kind() == ErrorKind::UnknownMethod {
            Error::new(
                ErrorKind::UnknownMethod,
                format!("a {} has no method `{name}`", value.kind()),
            )
        } else {
            error
        }
    })
}

fn zfill(text: &str, width: usize) -> Result<Native, Error> {
    let missing = width.saturating_sub(text.chars().count());
    session::charge_allocation(missing.saturating_add(text.len()))?;
    let (sign, digits) = match text.strip_prefix(['-', '+']) {
        Some(digits) => (&text[..1], digits),
        None => ("", text),
    };
    Ok(Native::from(format!("{sign}{}{digits}", "0".repeat(missing))))
}
