//! Filters, functions and methods of the house, beside the library's. Those that can build more than they are given
//! account for it first.
#![expect(
    clippy::needless_pass_by_value,
    reason = "the library hands arguments over by value"
)]

mod encode;
mod lists;
mod methods;
mod patterns;
mod text;
mod when;

use minijinja::Environment;
use minijinja::value::Value as Native;

use crate::template::operators::Marked;

pub(crate) use methods::method;

/// The filters registered here.
pub(crate) const NAMES: &[&str] = &[
    "b64decode",
    "b64encode",
    "batch",
    "bool",
    "center",
    "combine",
    "dict2items",
    "flatten",
    "format",
    "from_json",
    "fromjson",
    "get",
    "hash",
    "ident",
    "indent",
    "items2dict",
    "join",
    "keys",
    "list",
    "map",
    "quote",
    "raw_sh",
    "raw_sql",
    "regex_findall",
    "regex_replace",
    "regex_search",
    "replace",
    "slice",
    "strftime",
    "string",
    "ternary",
    "to_datetime",
    "to_json",
    "to_yaml",
    "escape",
    "e",
    "truncate",
    "wordwrap",
    "urlencode",
    "tojson",
    "values",
];

/// Registers them.
pub(crate) fn register(env: &mut Environment<'static>) {
    env.add_filter("ident", |value: Native| {
        Native::from_object(Marked::Ident(value))
    });
    env.add_filter("raw_sql", |value: Native| {
        Native::from_object(Marked::Raw(value))
    });
    env.add_filter("raw_sh", |value: Native| {
        Native::from_object(Marked::Raw(value))
    });
    text::register(env);
    patterns::register(env);
    lists::register(env);
    encode::register(env);
    when::register(env);
}
