//! The descriptions of names, filters, tests and functions of templates.

use crate::reference::NameSite::{Admission, Call, Condition, Default, Outcome};

/// A position of the language where templates read the same names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameSite {
    /// Defaults of `workload` and `ctx`, rendered before the run starts.
    Default,
    /// Admission rules of a step.
    Admission,
    /// Inputs and fields of a task.
    Call,
    /// Policy rules and `set` of a task.
    Outcome,
    /// Conditions, arguments and `set` of arcs, and `set` of a step.
    Condition,
}

impl NameSite {
    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Default => "default",
            Admission => "admission",
            Call => "call",
            Outcome => "outcome",
            Condition => "condition",
        }
    }
}

/// A name that templates can read.
#[derive(Debug, Clone, Copy)]
pub struct NameDoc {
    /// The name.
    pub name: &'static str,
    /// Where it can be read.
    pub sites: &'static [NameSite],
    /// Its fields; empty if the document defines them or it has none.
    pub fields: &'static [&'static str],
    /// Its value.
    pub text: &'static str,
}

/// A filter, test or function.
#[derive(Debug, Clone, Copy)]
pub struct WordDoc {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub text: &'static str,
}

const ALL: &[NameSite] = &[Default, Admission, Call, Outcome, Condition];
const RUNNING: &[NameSite] = &[Admission, Call, Outcome, Condition];
const TASKS: &[NameSite] = &[Call, Outcome];
const AFTER: &[NameSite] = &[Outcome, Condition];

/// The fields of the result of a step or a task, besides those of the result itself.
pub const ENVELOPE_FIELDS: &[&str] = &["status", "result", "data", "error", "meta"];

const fn name(
    name: &'static str,
    sites: &'static [NameSite],
    fields: &'static [&'static str],
    text: &'static str,
) -> NameDoc {
    NameDoc {
        name,
        sites,
        fields,
        text,
    }
}

/// Every name that does not come from the document.
pub const NAMES: &[NameDoc] = &[
    name(
        "workload",
        ALL,
        &[],
        "Inputs of the run, merged over the defaults of the playbook.",
    ),
    name(
        "ctx",
        ALL,
        &[],
        "State of the run; a missing key is read from `workload`.",
    ),
    name(
        "iter",
        RUNNING,
        &["index", "first", "last", "length", "parent"],
        "The current iteration of the loop, and values that `set_iter` wrote.",
    ),
    name("args", RUNNING, &[], "Values that the arc passed to the step."),
    name("input", TASKS, &[], "Input of the task."),
    name("steps", RUNNING, &[], "Latest results of the steps, by name."),
    name(
        "results",
        TASKS,
        &[],
        "Results of the other tasks of the step, by label.",
    ),
    name("outcome", AFTER, ENVELOPE_FIELDS, "Outcome of the task or step."),
    name("output", AFTER, ENVELOPE_FIELDS, "The same as `outcome`."),
    name(
        "event",
        &[Admission, Condition],
        &["name", "step", "status", "payload", "timestamp"],
        "The event that ended the step.",
    ),
    name(
        "keychain",
        &[Call],
        &[],
        "Entries of the keychain; their values are secrets.",
    ),
    name(
        "env",
        &[Default, Call, Outcome],
        &[],
        "Environment variables that `--allow-env` allows.",
    ),
    name("execution_id", ALL, &[], "ID of the run, as text."),
    name("job", ALL, &["id", "uuid", "execution_id"], "IDs of the run."),
    name("path", ALL, &[], "Path of the playbook."),
    name("version", ALL, &[], "Version of the playbook."),
    name(
        "parent_execution_id",
        RUNNING,
        &[],
        "ID of the run that started this one.",
    ),
    name(
        "idempotency_key",
        TASKS,
        &[],
        "The same text for all attempts of one pass.",
    ),
    name("loop_index", RUNNING, &[], "The same as `iter.index`."),
    name("_prev", TASKS, ENVELOPE_FIELDS, "Result of the task before."),
    name("_task", TASKS, &[], "Label of the task."),
    name("_attempt", TASKS, &[], "Number of the attempt."),
    name("_index", RUNNING, &[], "The same as `iter.index`."),
];

macro_rules! word_docs {
    ($($name:literal $text:literal)*) => { &[$(WordDoc { name: $name, text: $text }),*] };
}

/// Every function.
pub const FUNCTION_DOCS: &[WordDoc] = word_docs! {
    "range" "List of integers: `range(stop)` or `range(start, stop, step)`."
    "dict" "A map: `dict(a=1)`."
    "namespace" "An object whose fields `{% set ns.a = 2 %}` can change."
    "now" "Time of the attempt as RFC 3339 text; only where a task runs."
};

/// Every test.
pub const TEST_DOCS: &[WordDoc] = word_docs! {
    "undefined" "Whether the value is missing."
    "defined" "Whether the value exists."
    "none" "Whether the value is null."
    "safe" "Whether the text is marked as safe."
    "escaped" "The same as `safe`."
    "boolean" "Whether the value is `true` or `false`."
    "odd" "Whether the number is odd."
    "even" "Whether the number is even."
    "divisibleby" "Whether the number is divisible by the argument."
    "number" "Whether the value is a number."
    "integer" "Whether the value is an integer."
    "int" "The same as `integer`."
    "float" "Whether the value is a number with a fraction."
    "string" "Whether the value is text."
    "sequence" "Whether the value is a list."
    "iterable" "Whether the value can be iterated over."
    "mapping" "Whether the value is a map."
    "startingwith" "Whether the text starts with the argument."
    "endingwith" "Whether the text ends with the argument."
    "lower" "Whether the text is in lower case."
    "upper" "Whether the text is in upper case."
    "sameas" "Whether the two values are the same."
    "eq" "Whether the value equals the argument."
    "equalto" "The same as `eq`."
    "==" "The same as `eq`."
    "ne" "Whether the value differs from the argument."
    "!=" "The same as `ne`."
    "lt" "Whether the value is less than the argument."
    "lessthan" "The same as `lt`."
    "<" "The same as `lt`."
    "le" "Whether the value is at most the argument."
    "<=" "The same as `le`."
    "gt" "Whether the value is greater than the argument."
    "greaterthan" "The same as `gt`."
    ">" "The same as `gt`."
    "ge" "Whether the value is at least the argument."
    ">=" "The same as `ge`."
    "in" "Whether the argument contains the value."
    "true" "Whether the value is `true`."
    "false" "Whether the value is `false`."
    "filter" "Whether a filter has this name."
    "test" "Whether a test has this name."
};

/// Every filter.
pub const FILTER_DOCS: &[WordDoc] = word_docs! {
    "abs" "The number without its sign."
    "attr" "A field of a map."
    "b64decode" "The text that a base64 text encodes."
    "b64encode" "The text in base64."
    "batch" "Groups of a size: `batch(2)`."
    "bool" "True for `true`, `yes`, `on`, `1`, `y` and `t` in any case, false for other texts."
    "capitalize" "The text with a capital first letter."
    "center" "The text with spaces on both sides, up to a width."
    "chain" "Joins lists."
    "combine" "Merges maps; `recursive=true` merges nested ones."
    "count" "The same as `length`."
    "d" "The same as `default`."
    "default" "A value for a missing one; with `default(x, true)` also for empty and false values."
    "dict2items" "A list of `{key, value}` from a map."
    "dictsort" "Pairs of a map, sorted by key."
    "e" "The same as `escape`."
    "escape" "The text escaped for HTML."
    "filesizeformat" "The number as a size, such as `1.5 MB`."
    "first" "The first element."
    "flatten" "The list without nesting."
    "float" "The number in a text; error if it is none, or a default: `float(0)`."
    "format" "Fills the placeholders of Python's `%` operator."
    "from_json" "The value that a JSON text describes."
    "fromjson" "The same as `from_json`."
    "get" "A value of a map, or a default: `get(key, 0)`."
    "groupby" "Groups with `grouper` and `list`, by a field."
    "hash" "Hexadecimal hash; `sha256` by default."
    "ident" "Inserts the value as an identifier of a statement."
    "indent" "Indents all lines but the first."
    "int" "The integer in a text; error if it is none, or a default: `int(0)`."
    "items" "Pairs of a map."
    "items2dict" "A map from a list of `{key, value}`."
    "join" "Joins the elements as text, with a separator."
    "keys" "The keys of a map."
    "last" "The last element."
    "length" "The length of a text, list or map."
    "lines" "The lines of a text."
    "list" "A list of the elements."
    "lower" "The text in lower case."
    "map" "A field or a filter of each element: `map(attribute='n')`."
    "max" "The largest element."
    "min" "The smallest element."
    "pluralize" "The plural ending `s`, unless the number is 1."
    "pprint" "The value as text for reading."
    "quote" "The text as one word for a shell."
    "raw_jq" "Inserts the value as a jq program, without quoting."
    "raw_py" "Inserts the value as Python code, without quoting."
    "raw_rhai" "Inserts the value as a rhai script, without quoting."
    "raw_sh" "Inserts the value as shell code, without quoting."
    "raw_sql" "Inserts the value as SQL, without binding it."
    "regex_findall" "All matches of a regular expression."
    "regex_replace" "Replaces all matches; `\\1` is a group."
    "regex_search" "The first match, or a list of its groups; null without a match."
    "reject" "Elements for which a test is false."
    "rejectattr" "Elements for a field of which a test is false."
    "replace" "Replaces a text by another."
    "reverse" "The elements in reverse order."
    "round" "The number rounded to a number of digits."
    "safe" "No effect."
    "select" "Elements for which a test is true."
    "selectattr" "Elements for a field of which a test is true."
    "slice" "A number of groups: `slice(2)`."
    "sort" "The elements in order; also `sort(attribute='n', reverse=true)`."
    "split" "The parts of a text between separators."
    "strftime" "The time in a format, such as `%d.%m.%Y`."
    "string" "The value as text."
    "striptags" "The text without HTML tags."
    "sum" "The sum; with `attribute='price'` of a field."
    "ternary" "One of two values: `ternary('yes', 'no')`."
    "title" "The text with capital first letters of words."
    "to_datetime" "RFC 3339 text from a date, a time, seconds since 1970, or a text in a format."
    "to_json" "The value as JSON."
    "to_yaml" "The value as YAML."
    "tojson" "As `to_json`, with `< > & '` escaped."
    "trim" "The text without spaces at its ends."
    "truncate" "The text shortened to a length, at a word."
    "unique" "The elements without repetitions."
    "upper" "The text in upper case."
    "urlencode" "The text encoded for a URL."
    "values" "The values of a map."
    "wordcount" "The number of words."
    "wordwrap" "The text with line ends inserted, up to a width."
    "zip" "Pairs of the elements of two lists."
};
