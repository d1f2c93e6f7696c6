//! How heavy values are, so that what reads them is bounded: a list that holds itself twice, many times over, is short
//! to write and endless to walk.

use minijinja::value::{Value as Native, ValueKind};
use minijinja::{Environment, Error, ErrorKind};

use crate::template::budget::{self, DEPTH_MAX, ITEM_WORK};
use crate::template::operators::{is_list, items, to_text};
use crate::template::session;

/// Filters that look at their subject's surface only.
const SURFACE_FILTERS: &[&str] = &[
    "default", "d", "first", "ident", "raw_jq", "raw_py", "raw_rhai", "raw_sql", "raw_sh", "ternary", "abs", "round",
];
/// Filters that read their subject and arguments if those are texts, and else look at their surface.
const SCANNED: &[&str] = &["length", "count", "int", "float", "bool", "get", "attr"];
/// Filters that read their subject as text.
const TEXT_FILTERS: &[&str] = &[
    "safe",
    "escape",
    "e",
    "lower",
    "upper",
    "title",
    "capitalize",
    "trim",
    "split",
    "lines",
    "wordcount",
    "wordwrap",
    "replace",
    "indent",
    "format",
    "center",
    "truncate",
    "striptags",
    "b64encode",
    "b64decode",
    "regex_replace",
    "regex_search",
    "regex_findall",
    "hash",
    "quote",
    "fromjson",
    "from_json",
    "to_datetime",
    "strftime",
    "string",
];

/// Filters of the library that compare, hash or print all of their subject.
const DEEP_FILTERS: &[&str] = &["unique", "sort", "groupby", "dictsort", "min", "max", "sum", "pprint"];
/// Methods that look at a value's surface, or account for themselves.
const SURFACE_METHODS: &[&str] = &["keys", "values", "items", "append", "join"];

/// The filters through which the subject and the arguments of filter `name` go.
pub(crate) fn charges_of_filter(name: &str) -> (Option<&'static str>, Option<&'static str>) {
    if SURFACE_FILTERS.contains(&name) {
        (None, None)
    } else if SCANNED.contains(&name) {
        (Some("%scan"), Some("%scan"))
    } else if TEXT_FILTERS.contains(&name) {
        (Some("%text"), Some("%deep"))
    } else if DEEP_FILTERS.contains(&name) {
        (Some("%deep"), Some("%deep"))
    } else {
        (Some("%surface"), None)
    }
}

/// The filters through which the subject and the arguments of method `name` go.
pub(crate) fn charges_of_method(name: &str) -> (Option<&'static str>, Option<&'static str>) {
    if SURFACE_METHODS.contains(&name) {
        (None, None)
    } else if name == "get" {
        (None, Some("%scan"))
    } else {
        (Some("%deep"), Some("%deep"))
    }
}

/// Registers what values go through.
pub(crate) fn register(env: &mut Environment<'static>) {
    env.add_filter("%text", charge_text);
    env.add_filter("%deep", |value: Native| charge_deep(&value, 0).map(|()| value));
    env.add_filter("%surface", |value: Native| charge_surface(&value).map(|()| value));
    env.add_filter("%scan", |value: Native| scan(&value).map(|()| value));
    env.add_filter("%kept", check_stored);
    env.add_filter("%key", check_key);
}

/// A subject that will be read as text.
fn charge_text(value: Native) -> Result<Native, Error> {
    match value.kind() {
        ValueKind::String => {
            session::charge_work(value.as_str().map_or(0, str::len))?;
            Ok(value)
        }
        ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => Ok(Native::from(to_text(&value)?.into_owned())),
        _ => Ok(value),
    }
}

/// Accounts for going through a value once, without looking into its items.
fn charge_surface(value: &Native) -> Result<(), Error> {
    match value.as_str() {
        Some(text) => session::charge_work(text.len()),
        None => session::charge_work(value.len().unwrap_or(1).saturating_mul(ITEM_WORK)),
    }
}

/// Accounts for reading a value that is text.
pub(crate) fn scan(value: &Native) -> Result<(), Error> {
    session::charge_work(value.as_str().map_or(0, str::len))
}

/// The filters through which the subject and the arguments of test `name` go.
pub(crate) fn for_test(name: &str) -> Option<&'static str> {
    matches!(name, "lower" | "upper" | "startingwith" | "endingwith" | "sameas").then_some("%scan")
}

/// Accounts for reading all of a value.
pub(crate) fn charge_deep(value: &Native, depth: usize) -> Result<(), Error> {
    if depth > DEPTH_MAX {
        return Err(budget::exceeded("a value is nested too deeply"));
    }
    session::charge_work(ITEM_WORK)?;
    match value.kind() {
        ValueKind::String => session::charge_work(value.as_str().map_or(0, str::len)),
        ValueKind::Seq | ValueKind::Iterable => {
            for item in value.try_iter()?.checked() {
                charge_deep(&item?, depth + 1)?;
            }
            Ok(())
        }
        ValueKind::Map => {
            for key in value.try_iter()?.checked() {
                charge_deep(&value.get_item(&key?)?, depth + 1)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// A value that a variable keeps: not nested without end, and no view of a view of a view.
fn check_stored(value: Native) -> Result<Native, Error> {
    let value = if value.kind() == ValueKind::Iterable {
        Native::from(items(&value)?)
    } else {
        value
    };
    charge_deep(&value, 0)?;
    Ok(value)
}

/// A key of a map or an index.
pub(crate) fn check_key(value: Native) -> Result<Native, Error> {
    scan(&value)?;
    if is_list(&value) || value.kind() == ValueKind::Map {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("a {} cannot be a key", value.kind()),
        ));
    }
    Ok(value)
}
