//! The environment of all templates: filters, tests, functions and methods.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::LazyLock;

use minijinja::{Environment, UndefinedBehavior};

use crate::template::budget::{FUEL_MAX, RECURSION_MAX};
use crate::template::tree::SyntaxError;
use crate::template::{charges, compare, filters, operators};

/// The environment.
pub(crate) static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(build_environment);

/// The functions a template can call.
const FUNCTIONS: &[&str] = &["range", "dict", "namespace", "now"];

/// Functions of older runtimes, each with its replacement.
const REMOVED_FUNCTIONS: &[(&str, &str)] = &[
    (
        "token",
        "`keychain.<name>.access_token`, with an entry `<name>` under `keychain`",
    ),
    (
        "secret",
        "`keychain.<name>.<field>`, with an entry `<name>` under `keychain`",
    ),
    (
        "get_secret",
        "`keychain.<name>.<field>`, with an entry `<name>` under `keychain`",
    ),
    ("credential", "`auth: <name>` on the task, or `keychain.<name>.<field>`"),
    ("env", "`env.NAME`, for names that `--allow-env` allows"),
    ("getenv", "`env.NAME`, for names that `--allow-env` allows"),
    (
        "uuid",
        "`execution_id` or `idempotency_key`, which stay the same when a task is retried",
    ),
    (
        "uuid4",
        "`execution_id` or `idempotency_key`, which stay the same when a task is retried",
    ),
    ("utcnow", "`now()`"),
    ("today", "`now() | strftime('%Y-%m-%d')`"),
];

/// Filters of the library that are used unchanged.
const LIBRARY_FILTERS: &[&str] = &[
    "abs",
    "attr",
    "capitalize",
    "chain",
    "count",
    "d",
    "default",
    "dictsort",
    "filesizeformat",
    "first",
    "float",
    "groupby",
    "int",
    "items",
    "last",
    "length",
    "lines",
    "lower",
    "max",
    "min",
    "pluralize",
    "pprint",
    "reject",
    "rejectattr",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "sort",
    "split",
    "striptags",
    "sum",
    "title",
    "trim",
    "unique",
    "upper",
    "wordcount",
    "zip",
];

/// All tests.
const TESTS: &[&str] = &[
    "undefined",
    "defined",
    "none",
    "safe",
    "escaped",
    "boolean",
    "odd",
    "even",
    "divisibleby",
    "number",
    "integer",
    "int",
    "float",
    "string",
    "sequence",
    "iterable",
    "mapping",
    "startingwith",
    "endingwith",
    "lower",
    "upper",
    "sameas",
    "eq",
    "equalto",
    "==",
    "ne",
    "!=",
    "lt",
    "lessthan",
    "<",
    "le",
    "<=",
    "gt",
    "greaterthan",
    ">",
    "ge",
    ">=",
    "in",
    "true",
    "false",
    "filter",
    "test",
];

static FILTERS: LazyLock<BTreeSet<&'static str>> =
    LazyLock::new(|| LIBRARY_FILTERS.iter().chain(filters::NAMES).copied().collect());

/// The names of all filters.
#[cfg(test)]
pub(crate) fn list_filters() -> Vec<&'static str> {
    FILTERS.iter().copied().collect()
}

/// The names of all tests.
#[cfg(test)]
pub(crate) fn list_tests() -> Vec<&'static str> {
    TESTS.to_vec()
}

/// The names of all functions.
#[cfg(test)]
pub(crate) fn list_functions() -> Vec<&'static str> {
    FUNCTIONS.to_vec()
}

fn build_environment() -> Environment<'static> {
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::Chainable);
    env.set_fuel(Some(FUEL_MAX));
    env.set_recursion_limit(RECURSION_MAX);
    env.set_debug(false);
    env.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    env.remove_global("debug");
    env.set_unknown_method_callback(filters::call_method);
    minijinja_contrib::add_to_environment(&mut env);
    env.remove_global("cycler");
    env.remove_global("joiner");
    operators::register(&mut env);
    compare::register(&mut env);
    charges::register(&mut env);
    filters::register(&mut env);
    env
}

pub(crate) fn check_filter(name: &str, range: Range<usize>) -> Result<(), SyntaxError> {
    if FILTERS.contains(name) {
        return Ok(());
    }
    if name == "jq" {
        // A jq program may run forever and cannot be stopped during a rendering.
        return Err(SyntaxError {
            message: "`jq` is not a filter; use a task with `kind: transform`".to_owned(),
            range: Some(range),
        });
    }
    Err(unknown_name_error("filter", name, FILTERS.iter().copied(), range))
}

pub(crate) fn check_test(name: &str, range: Range<usize>) -> Result<(), SyntaxError> {
    if TESTS.contains(&name) {
        return Ok(());
    }
    Err(unknown_name_error("test", name, TESTS.iter().copied(), range))
}

pub(crate) fn check_function(name: &str, range: Range<usize>) -> Result<(), SyntaxError> {
    if FUNCTIONS.contains(&name) {
        return Ok(());
    }
    let removed = REMOVED_FUNCTIONS.iter().find(|(removed, _)| *removed == name);
    if let Some((_, instead)) = removed {
        return Err(SyntaxError {
            message: format!("the function `{name}` is not supported; write {instead}"),
            range: Some(range),
        });
    }
    Err(unknown_name_error("function", name, FUNCTIONS.iter().copied(), range))
}

fn unknown_name_error(
    subject: &str,
    name: &str,
    names: impl Iterator<Item = &'static str>,
    range: Range<usize>,
) -> SyntaxError {
    let near = names
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len() / 3)
        .min();
    let message = match near {
        Some((_, candidate)) => {
            format!("unknown {subject} `{name}`; did you mean `{candidate}`?")
        }
        None => format!("unknown {subject} `{name}`"),
    };
    SyntaxError {
        message,
        range: Some(range),
    }
}

/// The number of single-character edits between two words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
