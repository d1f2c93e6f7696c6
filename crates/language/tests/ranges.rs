//! `range(…)` as the source of a loop: computed by index if it is the whole template, otherwise a short list.
#![expect(clippy::unwrap_used, reason = "a failed expectation fails the test")]

use language::template::{Envelope, EnvelopeContent, LazyValue, Need, RenderError, Scope, Template, Tree};
use model::id::Seq;
use model::number_range::{NumberRange, RANGE_ITEMS_MAX};
use model::source::Span;
use serde_json::json;

fn any_span() -> Span {
    Span {
        line: 10,
        column: 5,
        start: 100,
        end: 200,
    }
}

fn scope() -> Scope {
    Scope {
        workload: LazyValue::new(json!({"n": 1_000_000, "from": 5, "text": "7", "whole": 4.0})),
        ..Scope::default()
    }
}

fn number_range(source: &str) -> Result<Option<NumberRange>, RenderError> {
    let template = Template::parse(source, any_span()).unwrap();
    Tree::Template(template).number_range(&scope())
}

fn failure(source: &str) -> (&'static str, String) {
    match number_range(source) {
        Err(RenderError::Failed { code, message, .. }) => (code, message),
        other => panic!("{source}: {other:?}"),
    }
}

#[test]
fn a_template_that_is_exactly_a_range_is_a_rule() {
    let rules = [
        ("{{ range(workload.n) }}", (0, 1_000_000, 1)),
        ("{{ range(n) | list }}", (0, 1_000_000, 1)),
        ("{{ (range(from, n)) }}\n", (5, 1_000_000, 1)),
        ("{{ range(n, -n, -(from + 2)) }}", (1_000_000, -1_000_000, -7)),
        ("{{ range(whole) }}", (0, 4, 1)),
        ("{{ range(from, none) }}", (0, 5, 1)),
        ("{{ range(range(from) | length) }}", (0, 5, 1)),
    ];
    for (source, (start, stop, by)) in rules {
        let rule = NumberRange::new(start, stop, by).unwrap();
        assert_eq!(number_range(source), Ok(Some(rule)), "{source}");
    }
}

#[test]
fn anything_else_is_rendered() {
    let sources = [
        "{{ range(3) | map('string') | list }}",
        "{{ range(3) if n else [] }}",
        "{{ [range(3)] }}",
        "{{ range(3) }} and text",
        "{{ n }}",
        "plain text",
    ];
    for source in sources {
        assert_eq!(number_range(source), Ok(None), "{source}");
    }
    let list = Tree::Literal(json!([1, 2]));
    assert_eq!(list.number_range(&scope()), Ok(None));
}

#[test]
fn a_range_over_the_limit_is_refused_with_the_limit() {
    let (code, message) = failure("{{ range(10 ** 15) }}");
    assert_eq!(code, "LIMIT_LOOP_ITEMS");
    let limit = RANGE_ITEMS_MAX.to_string();
    assert!(message.contains(&limit), "{message}");
    assert!(message.contains("1000000000000000"), "{message}");
}

#[test]
fn a_list_of_a_range_has_a_smaller_limit() {
    let long = Template::parse("{{ range(n) | map('string') | list }}", any_span()).unwrap();
    let Err(RenderError::Failed { code, message, .. }) = long.render(&scope()) else {
        panic!("the list of a million items must fail");
    };
    assert_eq!(code, "TEMPLATE_LIMIT");
    assert!(message.contains("100000 items"), "{message}");
    let short = Template::parse("{{ range(from, -from, -3) | list }}", any_span()).unwrap();
    let rendered = short.render(&scope()).unwrap().value;
    assert_eq!(rendered, json!([5, 2, -1, -4]));
}

#[test]
fn wrong_arguments_are_named() {
    let (code, message) = failure("{{ range(1, text) }}");
    assert_eq!(code, "TEMPLATE_ERROR");
    assert!(message.contains("argument 2 of range() is a string"), "{message}");
    let (code, message) = failure("{{ range(1, 5, 0) }}");
    assert_eq!(code, "TEMPLATE_ERROR");
    assert!(message.contains("step of range() is 0"), "{message}");
    let (code, message) = failure("{{ range(1, nothing.here) }}");
    assert_eq!(code, "TEMPLATE_UNDEFINED");
    assert!(message.contains("nothing.here"), "{message}");
}

#[test]
fn an_argument_inside_a_result_is_loaded_first() {
    let envelope = Envelope {
        is_ok: true,
        content: EnvelopeContent::Event(Seq(7)),
        labels: std::sync::Arc::default(),
        shows_status: false,
    };
    let scope = Scope {
        steps: std::sync::Arc::new([("count".into(), envelope)].into()),
        ..Scope::default()
    };
    let template = Template::parse("{{ range(count.total) }}", any_span()).unwrap();
    let needs = RenderError::Needs(vec![Need::Outcome(Seq(7))]);
    assert_eq!(template.number_range(&scope), Err(needs));
}
