//! The operators of the language, and how values are taken: native, bounded, and forgiving where the language says so.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr, Value as Native, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State};

use crate::template::budget::ITEM_BYTES;
use crate::template::convert;
use crate::template::envelope::{self, Word};
use crate::template::session;
use crate::template::tree::Piece;

/// The author's own text.
#[derive(Debug)]
pub(crate) struct Text(pub(crate) Arc<str>);

impl Object for Text {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

/// A value the author marked for the language it goes into.
#[derive(Debug)]
pub(crate) enum Marked {
    Ident(Native),
    Raw(Native),
}

impl Object for Marked {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_ref() {
            Self::Ident(value) | Self::Raw(value) => fmt::Display::fmt(value, f),
        }
    }
}

/// Registers the operators. Their names cannot be written in a template.
pub(crate) fn register(env: &mut Environment<'static>) {
    env.add_filter("%used", used);
    env.add_filter("%maybe", |value: &Native| envelope::whole(value));
    env.add_filter("%built", built);
    env.add_filter("%eq", |a: &Native, b: &Native| equal(a, b));
    env.add_filter("%ne", |a: &Native, b: &Native| !equal(a, b));
    env.add_filter("%in", contains);
    env.add_filter("%notin", |item: &Native, list: &Native| {
        contains(item, list).map(|found| !found)
    });
    env.add_filter("%lt", |a: &Native, b: &Native| {
        ordered(a, b, Ordering::is_lt)
    });
    env.add_filter("%le", |a: &Native, b: &Native| {
        ordered(a, b, Ordering::is_le)
    });
    env.add_filter("%gt", |a: &Native, b: &Native| {
        ordered(a, b, Ordering::is_gt)
    });
    env.add_filter("%ge", |a: &Native, b: &Native| {
        ordered(a, b, Ordering::is_ge)
    });
    env.add_filter("%concat", concat);
    env.add_filter("%add", add);
    env.add_filter("%mul", multiply);
    for name in ["eq", "equalto", "=="] {
        env.add_test(name, |a: &Native, b: &Native| equal(a, b));
    }
    for name in ["ne", "!="] {
        env.add_test(name, |a: &Native, b: &Native| !equal(a, b));
    }
    env.add_test("in", contains);
    env.set_formatter(write);
}

/// A value that must be there.
fn used(value: &Native, path: &str) -> Result<Native, Error> {
    if value.is_undefined() {
        return Err(Error::new(
            ErrorKind::UndefinedError,
            format!("`{path}` is undefined"),
        ));
    }
    Ok(envelope::whole(value))
}

/// Accounts for what a filter built.
fn built(value: Native) -> Result<Native, Error> {
    session::charge(size(&value))?;
    Ok(value)
}

/// What a value costs: its text, or a share for each item.
pub(crate) fn size(value: &Native) -> usize {
    match value.kind() {
        ValueKind::String => value.as_str().map_or(0, str::len),
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => {
            value.len().unwrap_or(0).saturating_mul(ITEM_BYTES)
        }
        _ => 0,
    }
}

/// Whether two values are equal: a word equals each of its spellings, a missing value only another one.
pub(crate) fn equal(a: &Native, b: &Native) -> bool {
    if let (Some(word), Some(text)) = (a.downcast_object_ref::<Word>(), b.as_str()) {
        return word.answers_to(text);
    }
    if let (Some(text), Some(word)) = (a.as_str(), b.downcast_object_ref::<Word>()) {
        return word.answers_to(text);
    }
    envelope::whole(a) == envelope::whole(b)
}

fn contains(item: &Native, list: &Native) -> Result<bool, Error> {
    let list = envelope::whole(list);
    match list.kind() {
        ValueKind::Undefined => Ok(false),
        ValueKind::String => {
            let text = list.as_str().unwrap_or_default();
            if let Some(word) = item.downcast_object_ref::<Word>() {
                return Ok(text.contains(word.name)
                    || word.aliases.iter().any(|alias| text.contains(alias)));
            }
            let item = envelope::whole(item);
            match item.as_str() {
                Some(part) => Ok(text.contains(part)),
                None => Err(unfit("in", &item, &list)),
            }
        }
        ValueKind::Map => {
            let item = envelope::whole(item);
            Ok(list
                .as_object()
                .is_some_and(|map| map.get_value(&item).is_some()))
        }
        ValueKind::Seq | ValueKind::Iterable => {
            for candidate in list.try_iter()?.checked() {
                if equal(item, &candidate?) {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        _ => Err(unfit("in", item, &list)),
    }
}

/// Compares in order. A missing value is neither before nor after anything.
fn ordered(a: &Native, b: &Native, holds: fn(Ordering) -> bool) -> Result<bool, Error> {
    let (a, b) = (envelope::whole(a), envelope::whole(b));
    if a.is_undefined() || b.is_undefined() {
        return Ok(false);
    }
    let numeric = |kind| matches!(kind, ValueKind::Number | ValueKind::Bool);
    let listed = |kind| matches!(kind, ValueKind::Seq | ValueKind::Iterable);
    let (left, right) = (a.kind(), b.kind());
    let fits = (numeric(left) && numeric(right))
        || (listed(left) && listed(right))
        || (left == ValueKind::String && right == ValueKind::String);
    if !fits {
        return Err(unfit("<", &a, &b));
    }
    Ok(a.partial_cmp(&b).is_some_and(holds))
}

fn concat(a: &Native, b: &Native) -> Result<Native, Error> {
    let (left, right) = (print(a)?, print(b)?);
    session::charge(left.len() + right.len())?;
    Ok(Native::from(left + &right))
}

fn add(a: &Native, b: &Native) -> Result<Native, Error> {
    if let (Some(left), Some(right)) = (a.as_str(), b.as_str()) {
        session::charge(left.len() + right.len())?;
        return Ok(Native::from([left, right].concat()));
    }
    if is_list(a) && is_list(b) {
        let items = items(a)?.into_iter().chain(items(b)?).collect::<Vec<_>>();
        return Ok(Native::from(items));
    }
    arithmetic("+", a, b, i128::checked_add, |a, b| a + b)
}

fn multiply(a: &Native, b: &Native) -> Result<Native, Error> {
    let (repeated, times) = if a.is_number() { (b, a) } else { (a, b) };
    if let Some(text) = repeated.as_str() {
        let times = repetitions(times)?;
        session::charge(text.len().saturating_mul(times))?;
        return Ok(Native::from(text.repeat(times)));
    }
    if is_list(repeated) {
        let times = repetitions(times)?;
        let items = items(repeated)?;
        session::charge(items.len().saturating_mul(times).saturating_mul(ITEM_BYTES))?;
        let count = items.len().saturating_mul(times);
        return Ok(Native::from(
            items.into_iter().cycle().take(count).collect::<Vec<_>>(),
        ));
    }
    arithmetic("*", a, b, i128::checked_mul, |a, b| a * b)
}

/// How often text or a list is repeated; less than once is not at all.
fn repetitions(times: &Native) -> Result<usize, Error> {
    match times.as_i64() {
        Some(times) => Ok(usize::try_from(times).unwrap_or(0)),
        None => Err(Error::new(
            ErrorKind::InvalidOperation,
            "text and lists can only be multiplied by an integer",
        )),
    }
}

fn is_list(value: &Native) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

/// A list's items, accounted for.
pub(crate) fn items(list: &Native) -> Result<Vec<Native>, Error> {
    let mut items = Vec::new();
    for item in list.try_iter()?.checked() {
        session::charge(ITEM_BYTES)?;
        items.push(item?);
    }
    Ok(items)
}

fn arithmetic(
    op: &str,
    a: &Native,
    b: &Native,
    whole: fn(i128, i128) -> Option<i128>,
    real: fn(f64, f64) -> f64,
) -> Result<Native, Error> {
    let fits = |value: &Native| matches!(value.kind(), ValueKind::Number | ValueKind::Bool);
    if !fits(a) || !fits(b) {
        return Err(unfit(op, a, b));
    }
    let integer = |value: &Native| match value.kind() {
        ValueKind::Bool => Some(i128::from(value.is_true())),
        _ if value.is_integer() => i128::try_from(value.clone()).ok(),
        _ => None,
    };
    if let (Some(left), Some(right)) = (integer(a), integer(b)) {
        let sum = whole(left, right).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidOperation,
                format!("{a} {op} {b} is too large"),
            )
        })?;
        return Ok(i64::try_from(sum).map_or_else(|_| Native::from(sum), Native::from));
    }
    Ok(Native::from(real(
        f64::try_from(a.clone())?,
        f64::try_from(b.clone())?,
    )))
}

/// A value's text, accounted for while it is written.
pub(crate) fn print(value: &Native) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.to_owned());
    }
    let mut text = Bounded(String::new());
    fmt::write(&mut text, format_args!("{value}"))
        .map_err(|_| crate::template::budget::exceeded("a value's text is too long"))?;
    Ok(text.0)
}

/// Text that stops growing at the budget.
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        session::charge(part.len()).map_err(|_| fmt::Error)?;
        self.0.push_str(part);
        Ok(())
    }
}

/// Writes a printed value, or notes it as a piece.
fn write(out: &mut Output<'_>, _state: &mut State<'_, '_>, value: &Native) -> Result<(), Error> {
    let text = value.downcast_object_ref::<Text>();
    if session::with(|session| session.pieces.is_some()) {
        let piece = match text {
            Some(text) => Piece::Text(text.0.to_string()),
            None => piece(value)?,
        };
        session::charge_output(piece.size())?;
        session::with(|session| session.pieces.get_or_insert_default().push(piece));
        return Ok(());
    }
    match text {
        Some(text) => {
            session::charge_output(text.0.len())?;
            out.write_str(&text.0)?;
        }
        None => {
            let printed = print(value)?;
            session::charge_output(printed.len())?;
            out.write_str(&printed)?;
        }
    }
    Ok(())
}

pub(crate) fn piece(value: &Native) -> Result<Piece, Error> {
    Ok(match value.downcast_object_ref::<Marked>() {
        Some(Marked::Ident(value)) => Piece::Ident(convert::to_json(value)?),
        Some(Marked::Raw(value)) => Piece::Raw(print(value)?),
        None => Piece::Value(convert::to_json(value)?),
    })
}

pub(crate) fn unfit(op: &str, a: &Native, b: &Native) -> Error {
    Error::new(
        ErrorKind::InvalidOperation,
        format!("`{op}` does not fit {} and {}", a.kind(), b.kind()),
    )
}
