//! Templates through the public door: names, envelopes, taint, loading, pieces, places of errors.

use std::sync::Arc;

use model::event::{Kind, Status};
use model::id::Seq;
use model::outcome::{ErrorKind, Facets, Outcome, TaskError};
use model::source::Span;
use model::template::{
    Data, Envelope, EventView, Iter, Loaded, Need, Piece, RenderError, Scope, Template, Tree,
};
use model::time::Time;
use serde_json::{Value, json};

fn at() -> Span {
    Span {
        line: 10,
        column: 5,
        start: 100,
        end: 200,
    }
}

fn scope() -> Scope {
    Scope {
        workload: Data::new(
            json!({"n": 1, "name": "Ada", "big": 9_007_199_254_740_993_i64, "items": [1, 2]}),
        ),
        ctx: Data::new(json!({"page": 3})),
        ..Scope::default()
    }
}

fn render(source: &str, scope: &Scope) -> Value {
    match Template::parse(source, at()).unwrap().render(scope) {
        Ok(rendered) => rendered.value,
        Err(error) => panic!("{source}: {error:?}"),
    }
}

fn holds(source: &str, scope: &Scope) -> bool {
    Template::condition(source, at())
        .unwrap()
        .is_true(scope)
        .unwrap()
}

fn failure(source: &str, scope: &Scope) -> (&'static str, String, Span) {
    match Template::parse(source, at()).unwrap().render(scope) {
        Err(RenderError::Failed {
            code,
            message,
            span,
        }) => (code, message, span),
        other => panic!("{source}: {other:?}"),
    }
}

fn guard(kind: Kind) -> Scope {
    Scope {
        event: Some(EventView {
            kind,
            step: Some("fetch".into()),
            status: Status::Success,
            payload: Data::default(),
            timestamp: Time(0),
        }),
        ..scope()
    }
}

#[test]
fn one_expression_keeps_its_type_and_the_rest_is_text() {
    let scope = scope();
    assert_eq!(render("{{ n }}", &scope), json!(1));
    assert_eq!(
        render("{{ big }}", &scope),
        json!(9_007_199_254_740_993_i64)
    );
    assert_eq!(render("{{ items }}", &scope), json!([1, 2]));
    assert_eq!(render("{{ none }}", &scope), json!(null));
    assert_eq!(render("n={{ n }}", &scope), json!("n=1"));
    assert_eq!(render("{{ n }}{{ n }}", &scope), json!("11"));
    assert_eq!(render("{{ workload.items }}\n", &scope), json!([1, 2]));
    assert_eq!(render("plain\n", &scope), json!("plain\n"));
    assert_eq!(
        render("{{ {'b': 1, 'a': [none]} }}", &scope),
        json!({"b": 1, "a": [null]})
    );
}

#[test]
fn names_fall_through_in_order() {
    let scope = scope();
    assert_eq!(
        render("{{ ctx.page }}{{ ctx.name }}{{ page }}", &scope),
        json!("3Ada3")
    );
}

#[test]
fn an_event_name_equals_each_of_its_aliases() {
    let scope = guard(Kind::StepDone);
    for text in [
        "event.name == 'step.done'",
        "{{ event.name == 'call.done' }}",
        "'step.exit' == event.name",
        "event.name in ['call.done', 'call.error']",
        "event.name is eq 'call.done'",
        "event.name != 'call.error'",
        "event.name not in ['call.error']",
    ] {
        assert!(holds(text, &scope), "{text}");
    }
    assert!(!holds("event.name == 'call.error'", &scope));
    assert_eq!(render("{{ event.name }}", &scope), json!("step.done"));
    assert_eq!(
        render("{{ event.name | upper }}", &scope),
        json!("STEP.DONE")
    );
}

#[test]
fn a_missing_value_is_an_error_with_its_place() {
    let (code, message, span) = failure("ok\n  {{ ctx.nope.x }}", &scope());
    assert_eq!(code, "TEMPLATE_UNDEFINED");
    assert_eq!(message, "`ctx.nope.x` is undefined");
    assert_eq!((span.line, span.column), (11, 6));
    assert_eq!(
        failure("{{ nope | upper }}", &scope()).0,
        "TEMPLATE_UNDEFINED"
    );
    assert_eq!(failure("{{ nope + 1 }}", &scope()).0, "TEMPLATE_UNDEFINED");
    assert_eq!(render("{{ a.b.c | default(7) }}", &scope()), json!(7));
    assert!(!holds("a.b.c", &scope()));
    assert!(!holds("a.b.c == 5", &scope()));
    assert!(!holds("a.b.c > 5", &scope()));
    assert!(holds("a.b.c is not defined", &scope()));
}

#[test]
fn texts_true_and_false_are_booleans_in_conditions() {
    let scope = scope();
    assert!(!holds("'False'", &scope));
    assert!(holds("true", &scope));
    assert!(holds("{{ 'TRUE' }}", &scope));
    assert!(!holds("''", &scope));
    assert!(!holds("{{ false }}", &scope));
}
