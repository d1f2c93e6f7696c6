//! The operators of the language: they work on template values, check the budget, and accept missing values where the
//! language reference allows them.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr, Value as Native, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State};

use crate::template::budget::{self, ITEM_BYTES};
use crate::template::convert;
use crate::template::envelope;
use crate::template::origin::WrittenPiece;
use crate::template::session;
use crate::template::tree::Piece;

/// The author's own text and its position in the template.
#[derive(Debug)]
pub(crate) struct AuthorText {
    pub(crate) text: Arc<str>,
    pub(crate) start: usize,
}

/// Marks the position of the next printed expression. Prints nothing.
#[derive(Debug)]
pub(crate) struct ExpressionMarker(pub(crate) Range<usize>);

impl Object for ExpressionMarker {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

impl Object for AuthorText {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

/// A value that the author marked with the language into which it is inserted.
#[derive(Debug)]
pub(crate) enum MarkedValue {
    Ident(Native),
    Raw(Native),
}

impl Object for MarkedValue {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_ref() {
            Self::Ident(value) | Self::Raw(value) => fmt::Display::fmt(value, f),
        }
    }
}

/// Registers the operators. Templates cannot use their names.
pub(crate) fn register(env: &mut Environment<'static>) {
    env.add_filter("%used", require_defined);
    env.add_filter("%maybe", |value: &Native| envelope::unwrap_view(value));
    env.add_filter("%built", charge_built);
    env.add_filter("%concat", concat);
    env.add_filter("%slice", slice);
    env.add_test("divisibleby", is_divisible);
    env.add_filter("%add", add);
    env.add_filter("%mul", multiply);
    env.set_formatter(write_value);
}

/// Returns the value, or an error if it is missing.
fn require_defined(value: &Native, path: &str) -> Result<Native, Error> {
    if value.is_undefined() {
        return Err(Error::new(
            ErrorKind::UndefinedError,
            format!("`{path}` is undefined; use `default(...)` if it may be missing"),
        ));
    }
    Ok(envelope::unwrap_view(value))
}

/// Charges the result of a filter.
fn charge_built(value: Native) -> Result<Native, Error> {
    session::charge_allocation(value_cost(&value))?;
    Ok(value)
}

/// Returns the bytes charged for a value: its text, or a share for each item.
pub(crate) fn value_cost(value: &Native) -> usize {
    match value.kind() {
        ValueKind::String => value.as_str().map_or(0, str::len),
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => value.len().unwrap_or(0).saturating_mul(ITEM_BYTES),
        _ => 0,
    }
}

fn concat(a: &Native, b: &Native) -> Result<Native, Error> {
    let (left, right) = (to_text(a)?, to_text(b)?);
    session::charge_allocation(left.len() + right.len())?;
    Ok(Native::from([left, right].concat()))
}

pub(crate) fn add(a: &Native, b: &Native) -> Result<Native, Error> {
    if let (Some(left), Some(right)) = (a.as_str(), b.as_str()) {
        session::charge_allocation(left.len() + right.len())?;
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
        let times = repeat_count(times)?;
        session::charge_allocation(text.len().saturating_mul(times))?;
        return Ok(Native::from(text.repeat(times)));
    }
    if is_list(repeated) {
        let times = repeat_count(times)?;
        let items = items(repeated)?;
        session::charge_allocation(items.len().saturating_mul(times).saturating_mul(ITEM_BYTES))?;
        let count = items.len().saturating_mul(times);
        return Ok(Native::from(items.into_iter().cycle().take(count).collect::<Vec<_>>()));
    }
    arithmetic("*", a, b, i128::checked_mul, |a, b| a * b)
}

/// Number of repetitions of a text or list; a negative number is 0.
fn repeat_count(times: &Native) -> Result<usize, Error> {
    match times.as_i64() {
        Some(times) => Ok(usize::try_from(times).unwrap_or(0)),
        None => Err(Error::new(
            ErrorKind::InvalidOperation,
            "text and lists can only be multiplied by an integer",
        )),
    }
}

pub(crate) fn is_list(value: &Native) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

/// Charges and returns a list's items.
pub(crate) fn items(list: &Native) -> Result<Vec<Native>, Error> {
    let mut items = Vec::new();
    for item in list.try_iter()?.checked() {
        session::charge_allocation(ITEM_BYTES)?;
        items.push(item?);
    }
    Ok(items)
}

/// `value[start:stop:step]`, as in Python.
fn slice(value: &Native, start: &Native, end: &Native, step: &Native) -> Result<Native, Error> {
    if let Some(text) = value.as_str() {
        session::charge_allocation(text.len())?;
        let chars: Vec<char> = text.chars().collect();
        let indices = slice_indices(chars.len(), start, end, step)?;
        let mut sliced = String::with_capacity(text.len());
        sliced.extend(indices.map(|index| chars[index]));
        return Ok(Native::from(sliced));
    }
    if !is_list(value) {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("a {} cannot be sliced", value.kind()),
        ));
    }
    let items = items(value)?;
    let indices = slice_indices(items.len(), start, end, step)?;
    Ok(Native::from(
        indices.map(|index| items[index].clone()).collect::<Vec<_>>(),
    ))
}

/// Indices that a slice selects from `length` items.
fn slice_indices(
    length: usize,
    start: &Native,
    end: &Native,
    step: &Native,
) -> Result<impl Iterator<Item = usize>, Error> {
    let number = |value: &Native| match value.as_i64() {
        _ if value.is_none() => Ok(None),
        Some(number) => Ok(Some(i128::from(number))),
        None => Err(Error::new(ErrorKind::InvalidOperation, "a slice is made of integers")),
    };
    let length = length as i128;
    let step = number(step)?.unwrap_or(1);
    if step == 0 {
        return Err(Error::new(ErrorKind::InvalidOperation, "a slice's step cannot be 0"));
    }
    // The index after the last item for a forward slice, before the first for a backward slice.
    let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let bound = |index: Option<i128>, otherwise: i128| match index {
        None => otherwise,
        Some(index) if index < 0 => (index + length).clamp(low, high),
        Some(index) => index.clamp(low, high),
    };
    let (first, last) = if step > 0 { (low, high) } else { (high, low) };
    let (start, end) = (bound(number(start)?, first), bound(number(end)?, last));
    let is_within = move |index: &i128| (step > 0 && *index < end) || (step < 0 && *index > end);
    let indices = std::iter::successors(Some(start), move |index| Some(index + step));
    Ok(indices
        .take_while(is_within)
        .filter_map(|index| usize::try_from(index).ok()))
}

/// Whether `value` is a multiple of `divisor`; no value is a multiple of 0.
fn is_divisible(value: &Native, divisor: &Native) -> bool {
    match (i128::try_from(value.clone()), i128::try_from(divisor.clone())) {
        (Ok(value), Ok(divisor)) => value.checked_rem(divisor) == Some(0),
        _ => match (f64::try_from(value.clone()), f64::try_from(divisor.clone())) {
            (Ok(value), Ok(divisor)) => value % divisor == 0.0,
            _ => false,
        },
    }
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
        return Err(operand_error(op, a, b));
    }
    let integer = |value: &Native| match value.kind() {
        ValueKind::Bool => Some(i128::from(value.is_true())),
        _ if value.is_integer() => i128::try_from(value.clone()).ok(),
        _ => None,
    };
    if let (Some(left), Some(right)) = (integer(a), integer(b)) {
        let sum = whole(left, right)
            .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, format!("{a} {op} {b} is too large")))?;
        return Ok(i64::try_from(sum).map_or_else(|_| Native::from(sum), Native::from));
    }
    Ok(Native::from(real(f64::try_from(a.clone())?, f64::try_from(b.clone())?)))
}

/// A value's text, charged while it is written.
pub(crate) fn to_text(value: &Native) -> Result<Cow<'_, str>, Error> {
    if let Some(text) = value.as_str() {
        return Ok(Cow::Borrowed(text));
    }
    let mut text = BoundedText(String::new());
    fmt::write(&mut text, format_args!("{value}")).map_err(|_| budget::limit_error("a value's text is too long"))?;
    Ok(Cow::Owned(text.0))
}

/// Returns the length of a value's text without building it.
pub(crate) fn printed_bytes(value: &Native) -> Result<usize, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.len());
    }
    let mut bytes = Measured(0);
    fmt::write(&mut bytes, format_args!("{value}")).map_err(|_| budget::limit_error("a value's text is too long"))?;
    Ok(bytes.0)
}

/// Counts the length of a text, up to the remaining budget.
struct Measured(usize);

impl fmt::Write for Measured {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.0 += part.len();
        session::charge_work(part.len())
            .and_then(|()| session::check_room(self.0))
            .map_err(|_| fmt::Error)
    }
}

/// Text that stops growing at the budget.
struct BoundedText(String);

impl fmt::Write for BoundedText {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        session::charge_allocation(part.len()).map_err(|_| fmt::Error)?;
        self.0.push_str(part);
        Ok(())
    }
}

/// Prints a value, or adds it as a piece.
fn write_value(out: &mut Output<'_>, _state: &mut State<'_, '_>, value: &Native) -> Result<(), Error> {
    if let Some(marker) = value.downcast_object_ref::<ExpressionMarker>() {
        session::with_session(|session| session.expression = marker.0.clone());
        return Ok(());
    }
    let text = value.downcast_object_ref::<AuthorText>();
    if session::with_session(|session| session.pieces.is_some()) {
        return record_piece(text, value);
    }
    if let Some(text) = text {
        session::charge_output(text.text.len())?;
        out.write_str(&text.text)?;
        return Ok(());
    }
    let printed = to_text(value)?;
    session::charge_printed(printed.len())?;
    out.write_str(&printed)?;
    Ok(())
}

fn record_piece(text: Option<&AuthorText>, value: &Native) -> Result<(), Error> {
    let (piece, range) = match text {
        Some(text) => {
            let piece = Piece::Text(text.text.to_string());
            (piece, text.start..text.start + text.text.len())
        }
        None => (
            to_piece(value)?,
            session::with_session(|session| session.expression.clone()),
        ),
    };
    session::add_piece(WrittenPiece {
        piece,
        range,
        // Only `tojson` and `to_json` return such texts.
        is_json: value.is_safe(),
    })
}

pub(crate) fn to_piece(value: &Native) -> Result<Piece, Error> {
    Ok(match value.downcast_object_ref::<MarkedValue>() {
        Some(MarkedValue::Ident(value)) => Piece::Ident(convert::to_json(value)?),
        Some(MarkedValue::Raw(value)) => Piece::Raw(to_text(value)?.into_owned()),
        None => Piece::Value(convert::to_json(value)?),
    })
}

pub(crate) fn operand_error(op: &str, a: &Native, b: &Native) -> Error {
    Error::new(
        ErrorKind::InvalidOperation,
        format!("cannot apply `{op}` to {} and {}", a.kind(), b.kind()),
    )
}
