//! Charges reading a value to the budget: a list that contains the same list twice, nested many times, has a short
//! template but takes exponential time to read.

use minijinja::value::{Value as Native, ValueKind};
use minijinja::{Environment, Error, ErrorKind};

use crate::template::budget::{self, DEPTH_MAX, ITEM_WORK};
use crate::template::operators::{is_list, items, to_text};
use crate::template::session;

/// Filters that do not read the items of their subject.
const SURFACE_FILTERS: &[&str] = &[
    "default", "d", "first", "ident", "raw_jq", "raw_py", "raw_rhai", "raw_sql", "raw_sh", "ternary", "abs", "round",
];
/// Filters that read the characters of a text but not the items of a list or map.
const SCAN_FILTERS: &[&str] = &["length", "count", "int", "float", "bool", "get", "attr"];
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

/// Filters of the library that compare, hash or print their whole subject.
const DEEP_FILTERS: &[&str] = &["unique", "sort", "groupby", "dictsort", "min", "max", "sum", "pprint"];
/// Methods that do not read the items of a value, or charge their own work.
const SURFACE_METHODS: &[&str] = &["keys", "values", "items", "append", "join"];

/// The filters that charge the subject and the arguments of filter `name`.
pub(crate) fn for_filter(name: &str) -> (Option<&'static str>, Option<&'static str>) {
    if SURFACE_FILTERS.contains(&name) {
        (None, None)
    } else if SCAN_FILTERS.contains(&name) {
        (Some("%scan"), Some("%scan"))
    } else if TEXT_FILTERS.contains(&name) {
        (Some("%text"), Some("%deep"))
    } else if DEEP_FILTERS.contains(&name) {
        (Some("%deep"), Some("%deep"))
    } else {
        (Some("%surface"), None)
    }
}

/// The filters that charge the subject and the arguments of method `name`.
pub(crate) fn for_method(name: &str) -> (Option<&'static str>, Option<&'static str>) {
    if SURFACE_METHODS.contains(&name) {
        (None, None)
    } else if name == "get" {
        (None, Some("%scan"))
    } else {
        (Some("%deep"), Some("%deep"))
    }
}

/// Registers the filters that charge and check values.
pub(crate) fn register(env: &mut Environment<'static>) {
    env.add_filter("%text", charge_text);
    env.add_filter("%deep", |value: Native| charge_deep(&value, 0).map(|()| value));
    env.add_filter("%surface", |value: Native| charge_surface(&value).map(|()| value));
    env.add_filter("%scan", |value: Native| charge_scan(&value).map(|()| value));
    env.add_filter("%stored", check_stored);
    env.add_filter("%key", check_key);
}

/// Charges a value that is read as text, and converts it to text.
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

/// Charges one pass over a value that does not read inside its items.
fn charge_surface(value: &Native) -> Result<(), Error> {
    match value.as_str() {
        Some(text) => session::charge_work(text.len()),
        None => session::charge_work(value.len().unwrap_or(1).saturating_mul(ITEM_WORK)),
    }
}

/// Charges the reading of a text; any other value is free.
pub(crate) fn charge_scan(value: &Native) -> Result<(), Error> {
    session::charge_work(value.as_str().map_or(0, str::len))
}

/// The filter that charges the subject and the arguments of test `name`.
pub(crate) fn for_test(name: &str) -> Option<&'static str> {
    matches!(name, "lower" | "upper" | "startingwith" | "endingwith" | "sameas").then_some("%scan")
}

/// Charges the reading of a whole value.
pub(crate) fn charge_deep(value: &Native, depth: usize) -> Result<(), Error> {
    if depth > DEPTH_MAX {
        return Err(budget::limit_error("a value is nested too deeply"));
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

/// Checks the value of an assignment: its nesting is limited, and a lazy sequence becomes a list.
fn check_stored(value: Native) -> Result<Native, Error> {
    let value = if value.kind() == ValueKind::Iterable {
        Native::from(items(&value)?)
    } else {
        value
    };
    charge_deep(&value, 0)?;
    Ok(value)
}

/// Checks a key or an index.
pub(crate) fn check_key(value: Native) -> Result<Native, Error> {
    charge_scan(&value)?;
    if is_list(&value) || value.kind() == ValueKind::Map {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("a {} cannot be a key", value.kind()),
        ));
    }
    Ok(value)
}
