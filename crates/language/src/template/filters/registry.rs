//! The filters that NoETL registers.

use minijinja::Environment;
use minijinja::value::Value as Native;

use crate::template::filters::{collections, datetime, encode, formatting, lists, patterns, strings, text};
use crate::template::operators::MarkedValue;

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
    "raw_jq",
    "raw_py",
    "raw_rhai",
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
    env.add_filter("ident", |value: Native| Native::from_object(MarkedValue::Ident(value)));
    for name in ["raw_jq", "raw_py", "raw_rhai", "raw_sh", "raw_sql"] {
        env.add_filter(name, |value: Native| Native::from_object(MarkedValue::Raw(value)));
    }
    text::register(env);
    strings::register(env);
    formatting::register(env);
    collections::register(env);
    patterns::register(env);
    lists::register(env);
    encode::register(env);
    datetime::register(env);
}
