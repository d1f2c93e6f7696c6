//! No operation of a template takes 64 MiB of memory: each is charged before its value is built. The allocator of this
//! test program counts every byte, so one row per operation is measured exactly.
#![expect(clippy::unwrap_used, reason = "a failed expectation fails the test")]
#![expect(clippy::too_many_lines, reason = "a table has a row per operation")]

use std::sync::{Mutex, PoisonError};

use language::template::{LazyValue, RenderError, Scope, Template};
use model::source::Span;
use peak_alloc::PeakAlloc;
use serde_json::{Map, Value, json};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// The measurement counts the whole process, so one test measures at a time.
static MEASUREMENT: Mutex<()> = Mutex::new(());

const PEAK_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How a rendering has to end.
#[derive(Clone, Copy, PartialEq)]
enum Expected {
    /// With `TEMPLATE_LIMIT`.
    Limit,
    /// With a value.
    Value,
    /// With a value, or with `TEMPLATE_ERROR` or `TEMPLATE_LIMIT`.
    Any,
}

use Expected::{Any, Limit};

/// A hostile template: what it does, its source and how it ends.
type Row = (&'static str, String, Expected);

fn row(name: &'static str, source: impl Into<String>, expected: Expected) -> Row {
    (name, source.into(), expected)
}

fn text_rows() -> Vec<Row> {
    let nested_groups = format!("{}x+{}", "(".repeat(60), ")".repeat(60));
    let too_many_groups = format!("{}x+{}", "(".repeat(99), ")".repeat(99));
    let empty_groups = "()".repeat(50);
    vec![
        row("upper", "{{ long | upper }}", Limit),
        row("upper by method", "{{ sharp.upper() }}", Limit),
        row("title", "{{ sharp | title }}", Limit),
        row("capitalize", "{{ long | capitalize }}", Limit),
        row("safe", "{{ long | safe }}", Limit),
        row("string", "{{ long | string }}", Limit),
        row("reverse a text", "{{ long | reverse }}", Limit),
        row("striptags", "{{ long | striptags }}", Limit),
        row("escape", "{{ quotes | e }}", Limit),
        row("quote", "{{ quotes | quote }}", Limit),
        row("urlencode", "{{ sharp | urlencode }}", Limit),
        row("urlencode a map", "{{ {'a': sharp, 'b': sharp} | urlencode }}", Limit),
        row("b64encode", "{{ long | b64encode }}", Limit),
        row("b64decode", "{{ long | b64decode }}", Limit),
        row("hash", "{{ long | hash }}", Expected::Value),
        row("concatenation", "{{ long ~ long ~ long }}", Limit),
        row("a slice of a text", "{{ wide[::-1] }}", Any),
        row("truncate", "{{ long | truncate(9000000, true) }}", Limit),
        row("center", "{{ 'x' | center(100000000) }}", Limit),
        row("indent", "{{ newlines | indent(100) }}", Limit),
        row("zfill", "{{ 'x'.zfill(100000000) }}", Limit),
        row("replace", "{{ text | replace('', '0123456789' * 10) }}", Limit),
        row("join", "{{ range(1000) | join(text) }}", Limit),
        row("wordwrap", "{{ words | wordwrap(1) }}", Limit),
        row(
            "wordwrap with a long separator",
            "{{ words | wordwrap(1, wrapstring='0123456789' * 20) }}",
            Limit,
        ),
        row("wordwrap of one word", "{{ wide | wordwrap(0) }}", Limit),
        row("split", "{{ wide | split('x') }}", Limit),
        row("split at spaces", "{{ words | split }}", Limit),
        row("split at most so often", "{{ wide | split('x', 3000000) }}", Limit),
        row("split by method", "{{ wide.split('x') }}", Limit),
        row("lines", "{{ newlines | lines }}", Limit),
        row("splitlines", "{{ newlines.splitlines() }}", Limit),
        row("splitlines with ends", "{{ newlines.splitlines(true) }}", Limit),
        row(
            "split of many texts",
            "{{ ([words] * 12) | map('split') | length }}",
            Limit,
        ),
        row(
            "format, one argument in many fields",
            "{{ ('{0}' * 300).format(text) }}",
            Limit,
        ),
        row(
            "format, one name in many fields",
            "{{ ('{a}' * 300).format(a=text) }}",
            Limit,
        ),
        row(
            "format, one path in many fields",
            "{{ ('{0[a]}' * 300).format({'a': text}) }}",
            Limit,
        ),
        row(
            "format, one key in many fields",
            "{{ ('%(a)s' * 300) | format({'a': text}) }}",
            Limit,
        ),
        row(
            "format with wide fields",
            "{{ ('{0:😀>4096}' * 15000).format(1) }}",
            Limit,
        ),
        row(
            "format with precise fields",
            "{{ ('%.4000f' * 15000) | format(*range(15000)) }}",
            Limit,
        ),
        row("strftime", "{{ 0 | strftime('%c' * 1500000) }}", Limit),
        row("to_datetime of a long text", "{{ long | to_datetime }}", Any),
        row(
            "regex_replace, one group many times",
            format!("{{{{ text | regex_replace('(x+)', {:?} * 300) }}}}", "\\1"),
            Limit,
        ),
        row(
            "regex_replace, one name many times",
            format!("{{{{ text | regex_replace('(?P<a>x+)', {:?} * 300) }}}}", "\\g<a>"),
            Limit,
        ),
        row(
            "regex_search with many groups",
            format!("{{{{ text | regex_search('{nested_groups}') }}}}"),
            Limit,
        ),
        row(
            "regex_search with too many groups",
            format!("{{{{ text | regex_search('{too_many_groups}') }}}}"),
            Limit,
        ),
        row(
            "regex_findall with many groups",
            format!("{{{{ text | regex_findall('{empty_groups}x') }}}}"),
            Limit,
        ),
        row("regex_findall", "{{ wide | regex_findall('x') }}", Limit),
        row("a long pattern", "{{ 'x' | regex_search(text) }}", Limit),
        row("a pattern of large classes", "{{ 'x' | regex_search(classes) }}", Any),
    ]
}

fn list_rows() -> Vec<Row> {
    let ranges = ["range(60000)"; 100].join(", ");
    let copies = ["dict(map)"; 20].join(", ");
    let attributes = ["a"; 100].join(",");
    vec![
        row("list", "{{ numbers | list }}", Limit),
        row("reverse", "{{ numbers | reverse | list }}", Limit),
        row(
            "chained lists reversed",
            format!("{{{{ range(60000) | chain({ranges}) | reverse | first }}}}"),
            Limit,
        ),
        row(
            "the last of chained lists",
            format!("{{{{ range(60000) | chain({ranges}) | last }}}}"),
            Limit,
        ),
        row(
            "zip",
            format!("{{{{ range(60000) | zip({ranges}) | list | length }}}}"),
            Limit,
        ),
        row("batch", "{{ numbers | batch(1) | length }}", Limit),
        row("slice", "{{ numbers | slice(100000) | length }}", Limit),
        row("sort", "{{ numbers | sort | length }}", Any),
        row(
            "sort by many attributes",
            format!("{{{{ rows | sort(attribute='{attributes}') | length }}}}"),
            Limit,
        ),
        row("groupby", "{{ numbered | groupby('a') | length }}", Limit),
        row("unique", "{{ numbers | unique | length }}", Any),
        row("unique texts", "{{ texts | unique | length }}", Limit),
        row("sum of lists", "{{ ([[1, 2, 3]] * 100000) | sum(start=[]) }}", Limit),
        row("select", "{{ numbers | select('defined') | length }}", Limit),
        row("map", "{{ numbers | map('string') | length }}", Limit),
        row("flatten", "{{ ([range(10000)] * 100) | flatten | length }}", Limit),
        row("dict", format!("{{{{ [{copies}] | length }}}}"), Limit),
        row(
            "namespace",
            format!("{{{{ [{}] | length }}}}", copies.replace("dict", "namespace")),
            Limit,
        ),
        row(
            "named arguments of a map",
            format!("{{{{ [{}] | length }}}}", copies.replace("(map)", "(**map)")),
            Limit,
        ),
        row("arguments of a list", "{{ '{}'.format(*numbers) }}", Limit),
        row("dict2items", "{{ map | dict2items | length }}", Limit),
        row("dictsort", "{{ map | dictsort | length }}", Limit),
        row("items", "{{ map | items | list | length }}", Limit),
        row("combine", "{{ map | combine(map, map) | length }}", Limit),
        row(
            "items2dict",
            "{{ ([{'key': 'a', 'value': 1}] * 100000) | items2dict | length }}",
            Any,
        ),
        row("keys", "{{ map | keys | length }}", Limit),
        row("values", "{{ map | values | length }}", Limit),
        row("many small maps", "{{ [{'a': 1}] * 130000 }}", Limit),
        row("many small lists", "{{ [[1]] * 130000 }}", Any),
        row(
            "fromjson of a list",
            "{{ ('[0' ~ ',0' * 2000000 ~ ']') | fromjson | length }}",
            Limit,
        ),
        row("fromjson of a long list", "{{ json_list | fromjson | length }}", Limit),
        row("fromjson of maps", "{{ json_maps | fromjson | length }}", Limit),
        row(
            "fromjson of nested lists",
            "{{ json_lists | fromjson | length }}",
            Limit,
        ),
        row("tojson of quotes", "{{ quotes | tojson }}", Limit),
        row("to_json of control characters", "{{ controls | to_json }}", Limit),
        row("to_json of keys", "{{ {controls: 1} | to_json }}", Limit),
        row(
            "to_yaml of control characters",
            "{{ [controls, controls] | to_yaml }}",
            Limit,
        ),
        row("to_yaml of a list", "{{ numbers | to_yaml }}", Limit),
        row(
            "tojson with a margin",
            "{{ [[[[1]]]] | tojson(indent=100000000) }}",
            Limit,
        ),
        row("pprint of a deep value", "{{ deep | pprint }}", Limit),
        row("pprint of a text", "{{ controls | pprint }}", Limit),
        row("a deep value printed", "{{ numbers ~ numbers }}", Any),
    ]
}

/// Operations on values that are as large as the budget allows, or nearly: the charged bytes must match the allocated
/// ones.
fn permitted_rows() -> Vec<Row> {
    let small_classes = r"\\w".repeat(4000);
    let slots = |last: usize| format!("{}x{{0,{last}}}[0-9]", "(x?)".repeat(60));
    let many_slots = (0..9).map(|n| format!("('xx' | regex_search('{}'))", slots(600 + n)));
    let many_slots = many_slots.collect::<Vec<_>>().join(", ");
    vec![
        row("upper", "{{ few_sharp | upper }}", Any),
        row("title", "{{ few_sharp | title }}", Any),
        row("tojson", "{{ few_quotes | tojson | length }}", Expected::Value),
        row("escape", "{{ few_quotes | e | length }}", Expected::Value),
        row("wordwrap", "{{ few_words | wordwrap(1) | length }}", Expected::Value),
        row("split", "{{ few_words | split | length }}", Expected::Value),
        row("split a long text", "{{ long.split('y') | length }}", Expected::Value),
        row("format", "{{ ('{0}' * 3).format(text) | length }}", Expected::Value),
        row(
            "fill",
            "{{ ('{0:😀>1000}' * 400).format(1) | length }}",
            Expected::Value,
        ),
        row(
            "regex_findall",
            "{{ few_words | regex_findall('(x)( )') | length }}",
            Any,
        ),
        row(
            "regex_replace",
            format!("{{{{ text | regex_replace('(x+)', {:?} * 3) | length }}}}", "\\1"),
            Expected::Value,
        ),
        row(
            "large classes",
            format!("{{{{ text | regex_search('{small_classes}') }}}}"),
            Any,
        ),
        row(
            "patterns with many groups and states",
            format!("{{{{ [{many_slots}] | length }}}}"),
            Any,
        ),
        row(
            "a pattern with many groups and states",
            format!("{{{{ 'xx' | regex_search('{}') }}}}", slots(3000)),
            Any,
        ),
        row("groupby", "{{ few_maps | groupby('a') | length }}", Expected::Value),
        row("dictsort", "{{ few_entries | dictsort | length }}", Expected::Value),
        row("dict2items", "{{ few_entries | dict2items | length }}", Any),
        row("combine", "{{ few_entries | combine(few_entries) | length }}", Any),
        row(
            "dict",
            "{{ [dict(few_entries), dict(few_entries)] | length }}",
            Expected::Value,
        ),
        row("unique", "{{ few_texts | unique | length }}", Expected::Value),
        row("sort", "{{ few_texts | sort | length }}", Expected::Value),
        row("batch", "{{ few_numbers | batch(1) | length }}", Expected::Value),
        row("batch of many", "{{ numbers | batch(1000) | length }}", Expected::Value),
        row("zip", "{{ range(50000) | zip(few_numbers) | first }}", Expected::Value),
        row(
            "zip listed",
            "{{ range(30000) | zip(range(30000)) | list | length }}",
            Expected::Value,
        ),
        row(
            "fromjson of a list",
            "{{ few_json_numbers | fromjson | length }}",
            Expected::Value,
        ),
        row(
            "fromjson of lists",
            "{{ few_json_lists | fromjson | length }}",
            Expected::Value,
        ),
        row(
            "fromjson of maps",
            "{{ few_json_maps | fromjson | length }}",
            Expected::Value,
        ),
        row("pprint", "{{ few_numbers | pprint | length }}", Any),
        row("to_yaml", "{{ few_numbers | to_yaml | length }}", Expected::Value),
        row("a list as a result", "{{ few_numbers }}", Expected::Value),
        row("maps as a result", "{{ few_maps }}", Any),
        row("small maps as a result", "{{ [{'a': 1}] * 90000 }}", Expected::Value),
        row("maps of a list as a result", "{{ few_entries | dict2items }}", Any),
        row("lists as a result", "{{ [[1]] * 100000 }}", Expected::Value),
    ]
}

/// Data as a task may have it: each value is large by itself, and all of them are converted before the measurement.
fn scope() -> Scope {
    let map: Map<String, Value> = (0..150_000).map(|n| (format!("key{n}"), json!(n))).collect();
    let mut deep = json!(vec![0; 8000]);
    for _ in 0..100 {
        deep = json!([deep]);
    }
    let scope = Scope {
        workload: LazyValue::new(json!({
            "text": "x".repeat(1_000_000),
            "wide": "x".repeat(4_000_000),
            "long": "x".repeat(24_000_000),
            "sharp": "ΐ".repeat(8_000_000),
            "quotes": "'".repeat(8_000_000),
            "controls": "\u{1}".repeat(8_000_000),
            "words": "x ".repeat(1_500_000),
            "newlines": "\n".repeat(3_000_000),
            "classes": r"\w".repeat(20_000),
            "numbers": (0..400_000).collect::<Vec<_>>(),
            "numbered": (0..150_000).map(|n| json!({ "a": n })).collect::<Vec<_>>(),
            "texts": (0..200_000).map(|n| format!("A text of some length, number {n}")).collect::<Vec<_>>(),
            "rows": vec![json!({ "a": "X".repeat(1000) }); 2000],
            "map": map,
            "deep": deep,
            "json_list": format!("[0{}]", ",0".repeat(2_000_000)),
            "json_maps": format!("[{}0]", "{\"a\":1},".repeat(500_000)),
            "few_sharp": "ΐ".repeat(2_000_000),
            "few_quotes": "'".repeat(500_000),
            "few_words": "x ".repeat(30_000),
            "few_numbers": (0..100_000).collect::<Vec<_>>(),
            "few_maps": (0..100_000).map(|n| json!({ "a": n })).collect::<Vec<_>>(),
            "few_texts": (0..50_000).map(|n| format!("A text of some length, number {n}")).collect::<Vec<_>>(),
            "few_entries": map.iter().take(50_000).map(|(key, n)| (key.clone(), n.clone())).collect::<Map<_, _>>(),
            "few_json_numbers": format!("[0{}]", ",0".repeat(80_000)),
            "few_json_maps": format!("[{}0]", "{\"a\":1},".repeat(30_000)),
            "few_json_lists": format!("[{}0]", "[[0]],".repeat(30_000)),
            "json_lists": format!("[{}0]", "[[0]],".repeat(600_000)),
        })),
        ..Scope::default()
    };
    render("{{ text is defined }}", &scope).unwrap();
    scope
}

fn render(source: &str, scope: &Scope) -> Result<(), RenderError> {
    let template = Template::parse(source, Span::default()).unwrap();
    template.render(scope).map(|_| ())
}

/// What `work` returns, and how many bytes it held beyond those that were held before, at the peak.
fn measure<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let result = work();
    (result, ALLOCATOR.peak_usage().saturating_sub(before))
}

fn ended_as(expected: Expected, result: &Result<(), RenderError>) -> bool {
    let code = match result {
        Ok(()) => None,
        Err(RenderError::Failed { code, .. }) => Some(*code),
        Err(_) => return false,
    };
    match expected {
        Limit => code == Some("TEMPLATE_LIMIT"),
        Expected::Value => code.is_none(),
        Any => matches!(code, None | Some("TEMPLATE_LIMIT" | "TEMPLATE_ERROR")),
    }
}

#[test]
fn every_operation_is_charged_before_its_value_is_built() {
    let _measurement = MEASUREMENT.lock().unwrap_or_else(PoisonError::into_inner);
    let scope = scope();
    let mut failures = Vec::new();
    let rows = [text_rows(), list_rows(), permitted_rows()].concat();
    for (name, source, expected) in rows {
        let (result, peak) = measure(|| render(&source, &scope));
        println!("{name}: {} KiB at the peak", peak / 1024);
        if peak >= PEAK_BYTES_MAX || !ended_as(expected, &result) {
            let excerpt: String = format!("{result:?}").chars().take(200).collect();
            failures.push(format!("{name}: {} KiB at the peak: {excerpt}", peak / 1024));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_measurement_notices_memory_beyond_the_bound() {
    let _measurement = MEASUREMENT.lock().unwrap_or_else(PoisonError::into_inner);
    let (length, peak) = measure(|| "x".repeat(PEAK_BYTES_MAX + 1).len());
    assert!(peak > PEAK_BYTES_MAX && length > PEAK_BYTES_MAX, "{peak}");
    // Memory that is released before the end counts, too.
    let (_, peak) = measure(|| vec![vec![0_u8; PEAK_BYTES_MAX / 2]; 3].len());
    assert!(peak > PEAK_BYTES_MAX, "{peak}");
    let (_, peak) = measure(|| "x".repeat(1024).len());
    assert!(peak < PEAK_BYTES_MAX, "{peak}");
}
