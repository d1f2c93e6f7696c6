//! No template takes more than a second or 64 MiB, however it is written.
#![expect(clippy::unwrap_used, reason = "a failed expectation fails the test")]
#![cfg(target_os = "linux")]

use std::fs;
use std::time::Duration;

use language::template::{LazyValue, RenderError, Scope, Template};
use model::source::Span;
use serde_json::json;

const MEMORY_KIB_MAX: u64 = 64 * 1024;
/// What a thread of the worker has.
const STACK_BYTES: usize = 2 * 1024 * 1024;

/// Peak memory of this process.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Processor time that this thread has used, whatever else the machine is doing.
fn processor_time() -> Duration {
    let times = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(times.split_whitespace().next().unwrap().parse().unwrap())
}

fn bombs() -> Vec<(&'static str, String)> {
    let doubling = "{% set a = a ~ a %}".repeat(40);
    let lists = "{% set a = [a, a] %}".repeat(60);
    let maps = "{% set a = {'x': a, 'y': a} %}".repeat(60);
    let deep = "{% set a = [a] %}".repeat(3000);
    let accumulated = "{% set ns = namespace(x=[]) %}{% for i in range(10000) %}{% set ns.x = [ns.x] %}{% endfor %}";
    vec![
        ("text doubled", format!("{{% set a = text %}}{doubling}{{{{ a }}}}")),
        ("text added", format!("{{% set a = text %}}{}{{{{ a }}}}", "{% set a = a + a %}".repeat(40))),
        ("text in one expression", format!("{{{{ {} }}}}", ["big"; 100].join(" ~ "))),
        ("a list of itself printed", format!("{{% set a = [1] %}}{lists}{{{{ a }}}}")),
        ("a list of itself as text", format!("{{% set a = [1] %}}{lists}{{{{ a | upper }}}}")),
        ("a list of itself made unique", format!("{{% set a = [1] %}}{lists}{{{{ [a, a] | unique }}}}")),
        ("lists of themselves compared", format!("{{% set a = [1] %}}{lists}{{% set b = a %}}{{% set a = [1] %}}{lists}{{{{ a == b }}}}")),
        ("a map of itself as JSON", format!("{{% set a = 1 %}}{maps}{{{{ a | tojson }}}}")),
        ("a map of itself as a key", format!("{{% set a = 1 %}}{maps}{{{{ {{a: 1}} }}}}")),
        ("deep lists", format!("{{% set a = 1 %}}{deep}{{{{ a }}}}")),
        ("lists nested in a loop", format!("{accumulated}{{{{ ns.x }}}}")),
        ("views of views", "{% set ns = namespace(x=[1]) %}{% for i in range(9000) %}{% set ns.x = ns.x[0:] %}{% endfor %}{{ ns.x }}".to_owned()),
        ("lists added in a loop", "{% set ns = namespace(x=[1]) %}{% for i in range(40) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x | length }}".to_owned()),
        ("a text many times in a list", "{{ [big] * 1000 }}".to_owned()),
        ("lists of lists of a text", "{{ [[big] * 100] * 100 }}".to_owned()),
        ("many small lists", "{{ [[1, 2, 3, 4]] * 100000 }}".to_owned()),
        ("text repeated", "{{ 'x' * 100000000 }}".to_owned()),
        ("lists repeated", "{{ [0] * 100000000 }}".to_owned()),
        ("replace", "{{ big | replace('x', big) }}".to_owned()),
        ("replace nothing", "{{ big | replace('', big) }}".to_owned()),
        ("replace by method", "{{ big.replace('x', big) }}".to_owned()),
        ("indent", "{{ lines | indent(1000000) }}".to_owned()),
        ("indent by text", "{{ lines | indent(big) }}".to_owned()),
        ("center", "{{ 'x' | center(1000000000) }}".to_owned()),
        ("format", "{{ '%01000000000d' | format(1) }}".to_owned()),
        ("format by argument", "{{ '%*d' | format(1000000000, 1) }}".to_owned()),
        ("format by method", "{{ '{:>1000000000}'.format(1) }}".to_owned()),
        ("join", "{{ range(90000) | join(big) }}".to_owned()),
        ("join by method", "{{ big.join(range(90000)) }}".to_owned()),
        ("batch", "{{ [1] | batch(1000000000, 'x') }}".to_owned()),
        ("slice", "{{ [1] | slice(1000000000, 'x') }}".to_owned()),
        ("map", "{{ ([big] * 1000) | map('upper') | list | length }}".to_owned()),
        ("a list of itself mapped", format!("{{% set a = [1] %}}{}{{{{ [a] | map('upper') | list }}}}", "{% set a = [a, a] %}".repeat(16))),
        ("a list of itself as an argument", format!("{{% set a = [1] %}}{}{{{{ text.split(a) }}}}", "{% set a = [a, a] %}".repeat(16))),
        ("methods in loops", "{% for i in range(20000) %}{{ big.find('y') }}{% endfor %}".to_owned()),
        ("sort", "{{ ([big] * 10000) | sort | length }}".to_owned()),
        ("JSON indented", "{{ [[[[1]]]] | tojson(indent=100000000) }}".to_owned()),
        ("wordwrap", "{{ big | wordwrap(1, wrapstring=big) }}".to_owned()),
        ("a giant range", "{{ range(1000000000000) | list }}".to_owned()),
        ("loops in loops", "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}x{% endfor %}{% endfor %}{% endfor %}".to_owned()),
        ("text in loops", format!("{{% for a in range(9999) %}}{}{{% endfor %}}", "x".repeat(60_000))),
        ("searches", "{% for i in range(9000) %}{{ 'y' in big }}{% endfor %}".to_owned()),
        ("comparisons", "{% for i in range(9000) %}{{ big == same }}{% endfor %}".to_owned()),
        ("a wide pattern", "{{ big | regex_replace('(x{1,500}){1,500}', 'y') }}".to_owned()),
        ("regex growth", "{{ big | regex_replace('x', big) }}".to_owned()),
        ("a deep sum", format!("{{{{ 1{} }}}}", " + 1".repeat(15_000))),
        ("deep attributes", format!("{{{{ a{} }}}}", ".a".repeat(30_000))),
        ("deep brackets", format!("{{{{ {}1{} }}}}", "(".repeat(30_000), ")".repeat(30_000))),
        ("deep lists written out", format!("{{{{ {}1{} }}}}", "[".repeat(30_000), "]".repeat(30_000))),
        ("many filters", format!("{{{{ 1{} }}}}", "|abs".repeat(15_000))),
        ("nested ifs", "{% if 1 %}".repeat(5000) + "{% endif %}"),
        ("a chain of elif", format!("{{% if a %}}{}{{% endif %}}", "{% elif a %}".repeat(4500))),
        ("not not not", format!("{{{{ {} a }}}}", "not ".repeat(15_000))),
        ("minus minus", format!("{{{{ {}a }}}}", "-".repeat(60_000))),
        ("powers", "{{ 9 ** 9 ** 9 ** 9 }}".to_owned()),
        ("a recursive macro", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}".to_owned()),
        ("comparison chains", format!("{{{{ 1{} }}}}", " < 2".repeat(15_000))),
        ("slices of slices", format!("{{{{ text{} }}}}", "[0:]".repeat(1400))),
        ("too long a source", "x".repeat(70_000) + "{{ 1 }}"),
        ("trim of many characters", "{{ ('y' ~ letters) | trim(letters[1:]) }}".to_owned()),
        ("strip of many characters", "{{ big.strip(letters) }}".to_owned()),
        ("lstrip of many characters", "{{ big.lstrip(letters) }}".to_owned()),
        ("rstrip of many characters", "{{ big.rstrip(letters) }}".to_owned()),
        ("texts summed", "{{ (['x' * 100] * 30000) | sum(start='') }}".to_owned()),
        ("lists summed", "{{ ([[1, 2, 3]] * 100000) | sum(start=[]) }}".to_owned()),
        ("characters of a text", "{% for i in range(20000) %}{{ big[499999] }}{% endfor %}".to_owned()),
        ("lengths of a text", "{% for i in range(20000) %}{{ big | length }}{% endfor %}".to_owned()),
        ("a text as a number", "{% for i in range(20000) %}{{ zeros | int }}{% endfor %}".to_owned()),
        ("a text tested", "{% for i in range(20000) %}{{ big is lower }}{% endfor %}".to_owned()),
        ("many texts tested", "{{ ([big] * 20000) | select('lower') | length }}".to_owned()),
        ("a text looked up", "{% for i in range(20000) %}{{ big in {'a': 1, 'b': 2} }}{% endfor %}".to_owned()),
        ("a text as a key", "{{ ([{'key': big, 'value': 1}] * 50000) | items2dict | length }}".to_owned()),
        ("a list of itself as a key", format!("{{% set a = [1] %}}{}{{{{ ([{{'key': a, 'value': 1}}] * 5000) | items2dict }}}}", "{% set a = [a, a] %}".repeat(16))),
        ("patterns compiled", "{% for i in range(20000) %}{{ 'x' | regex_search('\\w{5}' ~ i) }}{% endfor %}".to_owned()),
        ("a search in many places of a pattern", "{{ big | regex_search('(x{0,50}){0,50}[0-9]') }}".to_owned()),
        ("a search with many groups", format!("{{{{ big | regex_search('{}x{{0,2000}}[0-9]') }}}}", "(x?)".repeat(60))),
        ("a search for optional letters", format!("{{{{ big | regex_search('{}[0-9]') }}}}", "x?".repeat(2000))),
        ("a search that looks ahead", "{{ big | regex_findall('.*[^a-z]|[a-z]') | length }}".to_owned()),
        ("a replacement that looks ahead", "{{ big | regex_replace('.*[^a-z]|[a-z]', '') }}".to_owned()),
        ("a search that follows an option", "{{ big | regex_replace('x(x*y)?', '') }}".to_owned()),
        ("a search that follows a repetition", "{{ big | regex_replace('x(x*y){0,2}', '') }}".to_owned()),
        ("words of a text", "{{ (words * 4) | regex_replace('[a-z]+ ', 'y') | length }}".to_owned()),
        ("a replacement of empty groups", "{{ big | regex_replace('()x', '\\\\1' * 200000) }}".to_owned()),
        ("pprint of a deep value", "{{ deep | pprint }}".to_owned()),
    ]
}

fn scope() -> Scope {
    let mut deep = json!(vec![0; 5000]);
    for _ in 0..100 {
        deep = json!([deep]);
    }
    Scope {
        workload: LazyValue::new(json!({
            "text": "0123456789abcdef".repeat(64),
            "big": "x".repeat(500_000),
            "same": "x".repeat(500_000),
            "deep": deep,
            "words": "word ".repeat(20_000),
            "zeros": "0".repeat(500_000),
            // The character in `big` occurs at the end of many other texts.
            "letters": ('\u{4e00}'..='\u{9fff}').cycle().take(500_000).chain(['x']).collect::<String>(),
            "lines": "\n".repeat(100_000),
        })),
        ..Scope::default()
    }
}

#[test]
fn no_template_takes_more_than_a_second_or_64_mib() {
    let (scope, base) = (scope(), peak_kib());
    for (name, source) in bombs() {
        let scope = scope.clone();
        let run = move || {
            let started = processor_time();
            let result = Template::parse(&source, Span::default()).map(|template| template.render(&scope));
            (
                processor_time().saturating_sub(started),
                result.map(|rendered| rendered.map(|_| ())),
            )
        };
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run).unwrap();
        let (took, result) = thread.join().unwrap();
        assert!(took < Duration::from_secs(1), "{name} took {took:?}: {result:?}");
        let grown = peak_kib() - base;
        assert!(grown < MEMORY_KIB_MAX, "{name} took {grown} KiB: {result:?}");
        if let Ok(Err(RenderError::Failed { code, message, .. })) = &result {
            assert!(
                ["TEMPLATE_LIMIT", "TEMPLATE_ERROR"].contains(code),
                "{name}: {code} {message}"
            );
        }
        println!("{name}: {took:?} {grown} KiB {result:?}");
    }
}

#[test]
fn over_budget_is_its_own_code() {
    for source in [
        "{{ 'x' * 100000000 }}",
        "{{ big | replace('x', big) }}",
        "{% for a in range(99999) %}{{ a }}{% endfor %}",
        "{{ range(1000000) }}",
    ] {
        let rendered = Template::parse(source, Span::default()).unwrap().render(&scope());
        assert!(
            matches!(
                rendered,
                Err(RenderError::Failed {
                    code: "TEMPLATE_LIMIT",
                    ..
                })
            ),
            "{source}: {rendered:?}"
        );
    }
}
