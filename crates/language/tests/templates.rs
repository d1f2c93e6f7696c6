//! Templates through the public API: names, envelopes, taint, loading, pieces, positions of errors.
#![expect(clippy::unwrap_used, reason = "a failed expectation fails the test")]

use std::sync::Arc;

use language::template::{
    Envelope, EnvelopeContent, EventView, IterationView, LazyValue, LoadedValues, Need, Piece, RenderError, Scope,
    Template, Tree,
};
use model::event::{EventKind, EventStatus, LoopStats};
use model::id::Seq;
use model::outcome::{ErrorKind, Facets, Outcome, Success, TaskError};
use model::result_ref::ResultRef;
use model::source::Span;
use model::step_pointer::LoopPointer;
use model::time::Time;
use serde_json::{Value, json};

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
        workload: LazyValue::new(json!({"n": 1, "name": "Ada", "big": 9_007_199_254_740_993_i64, "items": [1, 2]})),
        ctx: LazyValue::new(json!({"page": 3})),
        ..Scope::default()
    }
}

fn render(source: &str, scope: &Scope) -> Value {
    match Template::parse(source, any_span()).unwrap().render(scope) {
        Ok(rendered) => rendered.value,
        Err(error) => panic!("{source}: {error:?}"),
    }
}

fn is_true(source: &str, scope: &Scope) -> bool {
    Template::condition(source, any_span()).unwrap().is_true(scope).unwrap()
}

fn failure(source: &str, scope: &Scope) -> (&'static str, String, Span) {
    match Template::parse(source, any_span()).unwrap().render(scope) {
        Err(RenderError::Failed { code, message, span }) => (code, message, span),
        other => panic!("{source}: {other:?}"),
    }
}

fn guard(kind: EventKind) -> Scope {
    Scope {
        event: Some(EventView {
            kind,
            step: Some("fetch".into()),
            status: EventStatus::Success,
            payload: LazyValue::default(),
            timestamp: Time(0),
        }),
        ..scope()
    }
}

#[test]
fn one_expression_keeps_its_type_and_the_rest_is_text() {
    let scope = scope();
    assert_eq!(render("{{ n }}", &scope), json!(1));
    assert_eq!(render("{{ big }}", &scope), json!(9_007_199_254_740_993_i64));
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
    assert_eq!(render("{{ ctx.page }}{{ ctx.name }}{{ page }}", &scope), json!("3Ada3"));
}

#[test]
fn an_event_name_equals_each_of_its_aliases() {
    let scope = guard(EventKind::StepDone);
    for text in [
        "event.name == 'step.done'",
        "{{ event.name == 'call.done' }}",
        "'step.exit' == event.name",
        "event.name in ['call.done', 'call.error']",
        "event.name is eq 'call.done'",
        "event.name != 'call.error'",
        "event.name not in ['call.error']",
    ] {
        assert!(is_true(text, &scope), "{text}");
    }
    assert!(!is_true("event.name == 'call.error'", &scope));
    assert_eq!(render("{{ event.name }}", &scope), json!("step.done"));
    assert_eq!(render("{{ event.name | upper }}", &scope), json!("STEP.DONE"));
}

#[test]
fn a_missing_value_is_an_error_with_its_place() {
    let (code, message, span) = failure("ok\n  {{ ctx.nope.x }}", &scope());
    assert_eq!(code, "TEMPLATE_UNDEFINED");
    assert_eq!(
        message,
        "`ctx.nope.x` is undefined; use `default(...)` if it may be missing"
    );
    assert_eq!((span.line, span.column), (11, 10));
    assert_eq!((span.start, span.end), (112, 122));
    assert_eq!(failure("{{ nope | upper }}", &scope()).0, "TEMPLATE_UNDEFINED");
    assert_eq!(failure("{{ nope + 1 }}", &scope()).0, "TEMPLATE_UNDEFINED");
    assert_eq!(render("{{ a.b.c | default(7) }}", &scope()), json!(7));
    assert!(!is_true("a.b.c", &scope()));
    assert!(!is_true("a.b.c == 5", &scope()));
    assert!(!is_true("a.b.c > 5", &scope()));
    assert!(is_true("a.b.c is not defined", &scope()));
}

#[test]
fn texts_true_and_false_are_booleans_in_conditions() {
    let scope = scope();
    assert!(!is_true("'False'", &scope));
    assert!(is_true("true", &scope));
    assert!(is_true("{{ 'TRUE' }}", &scope));
    assert!(!is_true("''", &scope));
    assert!(!is_true("{{ false }}", &scope));
}

fn outcome_scope(result: Value) -> Scope {
    Scope {
        outcome: Some(Envelope::from_outcome(Arc::new(Outcome::ok(result)))),
        ..scope()
    }
}

#[test]
fn the_result_of_an_envelope_is_found_by_every_alias() {
    let rows = outcome_scope(json!({"rows": [{"n": 4}], "row_count": 1}));
    for text in [
        "{{ outcome.rows[0].n }}",
        "{{ output.data.rows[0].n }}",
        "{{ outcome.result.rows[0].n }}",
        "{{ outcome['rows'][0]['n'] }}",
    ] {
        assert_eq!(render(text, &rows), json!(4), "{text}");
    }
    let http = outcome_scope(json!({"status_code": 200, "data": {"paging": {"more": true}, "items": [1, 2]}}));
    assert_eq!(render("{{ output.data.paging.more }}", &http), json!(true));
    assert_eq!(render("{{ output.data.data.paging.more }}", &http), json!(true));
    assert_eq!(render("{{ output.data.items }}", &http), json!([1, 2]));
    assert_eq!(render("{{ output.items | length }}", &http), json!(2));
    assert_eq!(render("{{ output.status_code }}", &http), json!(200));
    assert_eq!(render("{{ output.data | length }}", &http), json!(2));
    assert!(is_true("outcome.status == 'ok' and outcome.status == 'success'", &http));
    assert!(is_true("outcome.status in ['success', 'completed']", &http));
    assert_eq!(render("{{ outcome.status }}", &http), json!("ok"));
    assert!(is_true(
        "outcome.error is none and outcome.http is none and outcome.ref is not defined",
        &http
    ));
    assert!(!is_true("outcome.http.status in [500, 502]", &http));
    assert!(!is_true("outcome.http.status >= 500", &http));
    let list = outcome_scope(json!([3, 1, 2]));
    assert_eq!(render("{{ outcome | sort }}", &list), json!([1, 2, 3]));
    assert_eq!(render("{{ outcome[0] }}", &list), json!(3));
    assert_eq!(
        render("{% for x in outcome %}{{ x }},{% endfor %}", &list),
        json!("3,1,2,")
    );
    assert_eq!(render("{{ outcome }}", &list), json!([3, 1, 2]));
    assert_eq!(render("<{{ outcome }}>", &list), json!("<[3, 1, 2]>"));
}

#[test]
fn a_failure_shows_its_error_and_its_facets() {
    let failed = Outcome::error(TaskError::new(ErrorKind::ServerError, "HTTP_503", "busy")).with_facets(Facets {
        http: Some(json!({"status": 503})),
        ..Facets::default()
    });
    let scope = Scope {
        outcome: Some(Envelope::from_outcome(Arc::new(failed))),
        ..scope()
    };
    assert!(is_true("outcome.status == 'error' and outcome.error.retryable", &scope));
    assert!(is_true(
        "outcome.error.kind == 'server_error' and outcome.http.status in [502, 503]",
        &scope
    ));
    assert!(is_true("outcome.pg is none and outcome.pg.code is undefined", &scope));
    assert_eq!(render("{{ outcome.result }}", &scope), json!(null));
}

#[test]
fn all_needed_values_are_requested_at_once() {
    let steps = [("a", 5), ("b", 6)].map(|(name, seq)| (name.into(), Envelope::from_event(true, Seq(seq))));
    let mut scope = Scope {
        steps: Arc::new(steps.into()),
        ..scope()
    };
    // A success may have a `status` of its own in its result; a failure has no result.
    let failed = [("a".into(), Envelope::from_event(false, Seq(5)))];
    let after_failure = Scope {
        steps: Arc::new(failed.into()),
        ..scope.clone()
    };
    assert!(is_true("a.status == 'error'", &after_failure));
    let status = Template::condition("a.status == 'ok'", any_span()).unwrap();
    assert_eq!(
        status.is_true(&scope),
        Err(RenderError::Needs(vec![Need::Outcome(Seq(5))]))
    );
    let template = Template::parse("{{ a.x }}-{{ b.y | int }}", any_span()).unwrap();
    let needs = vec![Need::Outcome(Seq(5)), Need::Outcome(Seq(6))];
    assert_eq!(template.render(&scope), Err(RenderError::Needs(needs.clone())));
    let tree = Tree::Map(vec![
        (
            "a".to_owned(),
            Tree::Template(Template::parse("{{ a.x }}", any_span()).unwrap()),
        ),
        (
            "b".to_owned(),
            Tree::Template(Template::parse("{{ steps.b.y }}", any_span()).unwrap()),
        ),
    ]);
    assert_eq!(tree.render(&scope), Err(RenderError::Needs(needs)));
    let mut loaded = LoadedValues::default();
    loaded.outcomes.insert(Seq(5), Arc::new(Outcome::ok(json!({"x": 1}))));
    loaded.outcomes.insert(Seq(6), Arc::new(Outcome::ok(json!({"y": "2"}))));
    scope.loaded = Arc::new(loaded);
    assert_eq!(template.render(&scope).unwrap().value, json!("1-2"));
    assert_eq!(tree.render(&scope).unwrap().value, json!({"a": 1, "b": "2"}));
}

fn reference() -> Value {
    json!({"kind": "result_ref", "ref": "noetl://execution/1/x", "store": "disk",
        "meta": {"content_type": "application/json", "bytes": 9, "sha256": "00"},
        "extracted": {"row_count": 7}})
}

#[test]
fn a_reference_answers_what_it_knows_and_asks_for_its_body() {
    let mut scope = Scope {
        ctx: LazyValue::new(json!({"page": reference()})),
        ..scope()
    };
    assert_eq!(render("{{ ctx.page.row_count }}", &scope), json!(7));
    assert_eq!(render("{{ ctx.page.ref }}", &scope), json!("noetl://execution/1/x"));
    let template = Template::parse("{{ ctx.page.rows[0] }}", any_span()).unwrap();
    let Err(RenderError::Needs(needs)) = template.render(&scope) else {
        panic!("expected a need for the body");
    };
    assert!(matches!(&needs[..], [Need::Body(reference)] if reference.uri == "noetl://execution/1/x"));
    let mut loaded = LoadedValues::default();
    loaded
        .bodies
        .insert("noetl://execution/1/x".to_owned(), LazyValue::new(json!({"rows": [5]})));
    scope.loaded = Arc::new(loaded);
    assert_eq!(template.render(&scope).unwrap().value, json!(5));
    assert_eq!(render("{{ page | length }}", &scope), json!(1));
}

#[test]
fn a_secret_taints_what_it_touches_and_shows_only_where_it_may() {
    let mut scope = Scope {
        keychain: Some(LazyValue::new(json!({"db": {"password": "s3cret", "port": 5432}}))),
        ..scope()
    };
    for text in [
        "{{ keychain.db.password }}",
        "x{{ 'a' ~ keychain.db.password | upper }}",
        "{{ keychain.db | tojson }}",
        "{{ [keychain.db] }}",
        "{{ 1 if keychain.db.password == 's3cret' else 2 }}",
    ] {
        let rendered = Template::parse(text, any_span()).unwrap().render(&scope).unwrap();
        assert!(rendered.is_tainted(), "{text}");
        assert!(
            !rendered.value.to_string().to_lowercase().contains("s3cret"),
            "{text}: {}",
            rendered.value
        );
    }
    let untouched = Template::parse("{{ keychain.db.password if false else 1 }}", any_span()).unwrap();
    assert!(!untouched.render(&scope).unwrap().is_tainted());
    scope.reveals_secrets = true;
    assert_eq!(render("{{ keychain.db.port }}", &scope), json!(5432));
    assert_eq!(
        render("Bearer {{ keychain.db.password }}", &scope),
        json!("Bearer s3cret")
    );
    assert_eq!(
        render("{{ keychain.db }}", &scope),
        json!({"password": "s3cret", "port": 5432})
    );
}

#[test]
fn pieces_keep_the_authors_text_apart_from_values() {
    let source = "select * from {{ 't' | ident }} where {% if n %}a = {{ n }}{% endif %} in ({% for i in items %}{{ i }},{% endfor %}) {{ 'x' | raw_sql }}";
    let pieces = Template::parse(source, any_span())
        .unwrap()
        .rendered_pieces(&scope())
        .unwrap()
        .pieces;
    let text = |text: &str| Piece::Text(text.to_owned());
    assert_eq!(
        pieces,
        [
            text("select * from "),
            Piece::Ident(json!("t")),
            text(" where a = "),
            Piece::Value(json!(1)),
            text(" in ("),
            Piece::Value(json!(1)),
            text(","),
            Piece::Value(json!(2)),
            text(",) "),
            Piece::Raw("x".to_owned()),
        ]
    );
}

#[test]
fn an_iteration_reads_its_index_and_length() {
    let scope = Scope {
        iter: Some(IterationView {
            values: LazyValue::new(json!({"item": {"id": 9}})),
            index: Some(0),
            length: 2,
            parent: None,
        }),
        ..scope()
    };
    assert_eq!(
        render(
            "{{ [iter.item.id, item.id, iter.index, _index, loop_index, loop.index, iter.first, iter.last, iter.length] }}",
            &scope
        ),
        json!([9, 9, 0, 0, 0, 0, true, false, 2])
    );
}

#[test]
fn path_uses_have_a_path_and_a_position() {
    let template = Template::parse("{{ iter.page + outcome.http['status'] | default(1) }}", any_span()).unwrap();
    assert_eq!(template.paths(), ["iter.page", "outcome.http.status"]);
    let uses = template.path_uses();
    assert_eq!(uses[0].range, 3..12);
    assert!(!uses[0].guarded);
    assert!(uses[1].guarded);
    let local = Template::parse("{% for row in rows %}{{ row.x }}{% endfor %}", any_span()).unwrap();
    assert_eq!(local.paths(), ["rows"]);
}

#[test]
fn what_does_not_exist_is_refused_with_a_suggestion() {
    let message = |text: &str| Template::parse(text, any_span()).unwrap_err().message;
    assert_eq!(
        message("{{ a | defualt(1) }}"),
        "unknown filter `defualt`; did you mean `default`?"
    );
    assert_eq!(
        message("{{ a is definde }}"),
        "unknown test `definde`; did you mean `defined`?"
    );
    assert_eq!(message("{{ nwo() }}"), "unknown function `nwo`; did you mean `now`?");
    assert!(message("{% include 'x' %}").contains("include"));
    assert!(Template::parse("{{ a + }}", any_span()).is_err());
}

#[test]
fn the_added_filters_work_as_documented() {
    let scope = Scope {
        now: Some(Time(1_700_000_000_000_000)),
        ..scope()
    };
    for (source, expected) in [
        ("{{ '{\"a\": [1]}' | fromjson }}", json!({"a": [1]})),
        ("{{ {'a': \"it's\"} | to_json }}", json!("{\"a\": \"it's\"}")),
        (
            "{{ [1, {'a': 2}] | tojson(indent=2) }}",
            json!("[\n  1,\n  {\n    \"a\": 2\n  }\n]"),
        ),
        (
            "{{ {'a': [1, 'no'], 'b': {'c': none}} | to_yaml }}",
            json!("a:\n  - 1\n  - \"no\"\nb:\n  c: null\n"),
        ),
        ("{{ 'héllo' | b64encode }}", json!("aMOpbGxv")),
        ("{{ 'aMOpbGxv' | b64decode }}", json!("héllo")),
        ("{{ 'a-b-c' | regex_replace('(\\\\w)-', '\\\\1_') }}", json!("a_b_c")),
        ("{{ 'id=42;' | regex_search('id=(\\\\d+)') }}", json!("42")),
        ("{{ 'nope' | regex_search('\\\\d') }}", json!(null)),
        ("{{ 'a1b22' | regex_findall('\\\\d+') }}", json!(["1", "22"])),
        (
            "{{ 'abc' | hash }}",
            json!("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ),
        ("{{ \"it's\" | quote }}", json!("'it'\"'\"'s'")),
        (
            "{{ {'a': 1, 'm': {'x': 1}} | combine({'m': {'y': 2}}, recursive=true) }}",
            json!({"a": 1, "m": {"x": 1, "y": 2}}),
        ),
        ("{{ {'a': 1} | combine({'a': 2}, {'b': 3}) }}", json!({"a": 2, "b": 3})),
        ("{{ [1, [2, [3]]] | flatten }}", json!([1, 2, 3])),
        ("{{ [1, [2, [3]]] | flatten(1) }}", json!([1, 2, [3]])),
        ("{{ {'a': 1} | dict2items }}", json!([{"key": "a", "value": 1}])),
        ("{{ {'a': 1} | dict2items | items2dict }}", json!({"a": 1})),
        ("{{ (1 == 1) | ternary('y', 'n') }}", json!("y")),
        ("{{ 'yes' | bool }}", json!(true)),
        ("{{ 'off' | bool }}", json!(false)),
        ("{{ {'a': 1} | get('b', 5) }}", json!(5)),
        ("{{ {'a': 1} | keys }}", json!(["a"])),
        ("{{ {'a': 1} | values }}", json!([1])),
        ("{{ [1].append(2) }}", json!([1, 2])),
        ("{{ '7'.zfill(3) }}", json!("007")),
        ("{{ now() }}", json!("2023-11-14T22:13:20.000000Z")),
        ("{{ now() | strftime('%Y/%m/%d') }}", json!("2023/11/14")),
        ("{{ '2024-02-29' | to_datetime }}", json!("2024-02-29T00:00:00Z")),
        (
            "{{ '29.02.2024' | to_datetime('%d.%m.%Y') }}",
            json!("2024-02-29T00:00:00Z"),
        ),
        ("{{ 86400 | to_datetime }}", json!("1970-01-02T00:00:00Z")),
    ] {
        assert_eq!(render(source, &scope), expected, "{source}");
    }
}

#[test]
fn the_server_has_no_clock_no_environment_and_no_internals() {
    let scope = scope();
    let (code, message, _) = failure("{{ now() }}", &scope);
    assert_eq!(code, "TEMPLATE_ERROR");
    assert!(
        message.starts_with("now() can only be used where a task runs"),
        "{message}"
    );
    for source in [
        "{{ env.HOME }}",
        "{{ keychain.db }}",
        "{{ ''.__class__ }}",
        "{{ name.__class__.__mro__ }}",
        "{{ self }}",
        "{{ __globals__ }}",
    ] {
        assert_eq!(failure(source, &scope).0, "TEMPLATE_UNDEFINED", "{source}");
    }
    for source in [
        "{{ debug() }}",
        "{{ [1] | map('%eq', 1) }}",
        "{{ lipsum() }}",
        "{{ self.x() }}",
    ] {
        let refused = Template::parse(source, any_span()).map_or(true, |template| template.render(&scope).is_err());
        assert!(refused, "{source}");
    }
}

#[test]
fn a_step_shows_its_tasks_and_a_loop_its_list() {
    let task = |value: Value| Envelope::from_outcome(Arc::new(Outcome::ok(value)));
    let mut step = task(json!({"total": 3}));
    step.labels = Arc::new(vec![
        ("load".into(), task(json!([1, 2]))),
        ("save".into(), task(json!({"total": 3}))),
    ]);
    let pointer = LoopPointer {
        started: Seq(4),
        done: Seq(9),
    };
    let each = Envelope {
        is_ok: true,
        content: EnvelopeContent::Loop(pointer.clone()),
        labels: Arc::default(),
        shows_status: false,
    };
    let mut scope = Scope {
        steps: Arc::new([("s".into(), step), ("each".into(), each)].into()),
        ..scope()
    };
    assert_eq!(
        render(
            "{{ [s.load | length, s.results.load[1], s.total, s.results.save.total] }}",
            &scope
        ),
        json!([2, 2, 3, 3])
    );
    let results = Template::parse("{{ each }}", any_span()).unwrap();
    assert_eq!(
        results.render(&scope),
        Err(RenderError::Needs(vec![Need::Loop(pointer.clone())]))
    );
    let counts = Template::parse("{{ each.stats.total }}", any_span()).unwrap();
    assert_eq!(
        counts.render(&scope),
        Err(RenderError::Needs(vec![Need::LoopStats(pointer)])),
        "the counts of a loop must be read without its results"
    );
    let mut loaded = LoadedValues::default();
    let stats = LoopStats {
        total: 7,
        succeeded: 6,
        failed: 1,
    };
    loaded.loop_stats.insert(Seq(9), stats);
    scope.loaded = Arc::new(loaded);
    let counts = "{{ each.stats.total }} {{ each.stats.failed }}";
    assert_eq!(render(counts, &scope), json!("7 1"));
    let mut loaded = LoadedValues::default();
    loaded.loops.insert(
        Seq(9),
        LazyValue::new(json!({"results": [{"n": 1}, {"n": 2}], "stats": {"total": 2}})),
    );
    scope.loaded = Arc::new(loaded);
    let list = json!([{"n": 1}, {"n": 2}]);
    for source in [
        "{{ each.data }}",
        "{{ each.results }}",
        "{{ each.result.results }}",
        "{{ steps.each.data }}",
    ] {
        assert_eq!(render(source, &scope), list, "{source}");
    }
    let results = json!({"results": list, "stats": {"total": 2}});
    for source in ["{{ each }}", "{{ each.result }}"] {
        assert_eq!(render(source, &scope), results, "{source}");
    }
    assert_eq!(
        render("{{ each.stats.total }}{{ each[0].n }}{{ each.data[1].n }}", &scope),
        json!("212")
    );
}

#[test]
fn keys_of_a_steps_result_precede_fields_of_the_envelope() {
    let result =
        json!({"status": "partial", "error": "no token", "results": [1], "meta": 5, "load": 6, "http": {"a": 1}});
    let mut step = Envelope::from_outcome(Arc::new(Outcome::ok(result)));
    let load = Envelope::from_outcome(Arc::new(Outcome::ok(json!({"n": 2}))));
    step.labels = Arc::new(vec![("load".into(), load)]);
    let plain = Envelope {
        labels: step.labels.clone(),
        ..Envelope::from_outcome(Arc::new(Outcome::ok(json!({"data": {"error": 1, "k": 2}}))))
    };
    let scope = Scope {
        steps: Arc::new([("s".into(), step.clone()), ("plain".into(), plain)].into()),
        outcome: Some(step),
        ..scope()
    };
    assert_eq!(
        render(
            "{{ [s.status, s.error, s.results, s.meta, s.load, s.http.a, s.pg] }}",
            &scope
        ),
        json!(["partial", "no token", [1], 5, 6, 1, null])
    );
    assert_eq!(
        render(
            "{{ [outcome.status, outcome.error, outcome.results.load.n, outcome.load.n, outcome.http, outcome.response.meta] }}",
            &scope
        ),
        json!(["ok", null, 2, 2, null, 5])
    );
    assert_eq!(
        render("{{ [plain.status, plain.load.n, plain.k] }}", &scope),
        json!(["ok", 2, 2])
    );
    assert!(is_true("plain.error is not defined", &scope));
    assert!(is_true("s.error is defined", &scope));
}

/// Returns the envelope of a stored body with these fields and keys.
fn stored_envelope(extracted: Value, keys: &[&str]) -> Envelope {
    let mut reference = reference();
    reference["extracted"] = extracted;
    reference["keys"] = json!(keys);
    let outcome: Outcome =
        serde_json::from_value(json!({"status": "ok", "result": null, "reference": reference})).unwrap();
    Envelope::from_outcome(Arc::new(outcome))
}

#[test]
fn a_stored_body_means_what_an_inline_one_means_and_is_loaded_only_for_its_own_keys() {
    let plain = stored_envelope(json!({"n": 1}), &["rows"]);
    let own = stored_envelope(json!({"status": "partial"}), &["error", "results"]);
    let mut scope = Scope {
        steps: Arc::new([("plain".into(), plain), ("own".into(), own)].into()),
        ..scope()
    };
    assert_eq!(
        render("{{ [plain.status, plain.n, own.status] }}", &scope),
        json!(["ok", 1, "partial"])
    );
    assert!(is_true("plain.error is not defined", &scope));
    let template = Template::parse("{{ [own.error.why, own.results] }}", any_span()).unwrap();
    let Err(RenderError::Needs(needs)) = template.render(&scope) else {
        panic!("expected a need for the body")
    };
    let [Need::Body(reference)] = &needs[..] else {
        panic!("{needs:?}")
    };
    let mut loaded = LoadedValues::default();
    let body = json!({"status": "partial", "error": {"why": "x"}, "results": [1]});
    loaded.bodies.insert(reference.uri.clone(), LazyValue::new(body));
    scope.loaded = Arc::new(loaded);
    assert_eq!(template.render(&scope).unwrap().value, json!(["x", [1]]));
}

#[test]
fn selected_fields_are_known_of_an_inline_result() {
    let outcome: Outcome = serde_json::from_value(json!({
        "status": "ok", "result": {"paging": {"hasMore": true}}, "selected": {"has_more": true, "status": "x"}
    }))
    .unwrap();
    let envelope = Envelope::from_outcome(Arc::new(outcome));
    let scope = Scope {
        steps: Arc::new([("s".into(), envelope.clone())].into()),
        outcome: Some(envelope),
        ..scope()
    };
    assert_eq!(
        render("{{ [s.has_more, outcome.has_more, s.status, outcome.status] }}", &scope),
        json!([true, true, "x", "ok"])
    );
}

#[test]
fn an_http_response_in_the_input_of_a_program_has_body_and_data() {
    let outcome: Outcome = serde_json::from_value(json!({
        "status": "ok", "result": {"status_code": 200, "data": {"body": 1, "k": 2}}, "http": {"status": 200}
    }))
    .unwrap();
    let mut scope = Scope {
        steps: Arc::new([("fetch".into(), Envelope::from_outcome(Arc::new(outcome)))].into()),
        ..scope()
    };
    let data = json!({"body": 1, "k": 2});
    assert_eq!(render("{{ fetch.body }}", &scope), data);
    assert_eq!(render("{{ fetch }}", &scope), json!({"status_code": 200, "data": data}));
    scope.names_http_body = true;
    assert_eq!(
        render("{{ fetch }}", &scope),
        json!({"status_code": 200, "data": data, "body": data})
    );
}

#[test]
fn an_externalised_result_gives_its_reference_as_data() {
    let outcome: Outcome =
        serde_json::from_value(json!({"status": "ok", "result": null, "reference": reference()})).unwrap();
    let scope = Scope {
        outcome: Some(Envelope::from_outcome(Arc::new(outcome))),
        ..scope()
    };
    assert_eq!(render("{{ outcome.row_count }}", &scope), json!(7));
    assert_eq!(render("{{ outcome.ref.ref }}", &scope), json!("noetl://execution/1/x"));
    assert_eq!(render("{{ outcome._ref }}", &scope)["kind"], json!("result_ref"));
    assert!(is_true("outcome.ref is defined and outcome._store == 'disk'", &scope));
    let body = Template::condition("outcome.data.rows | length > 0", any_span()).unwrap();
    assert!(matches!(body.is_true(&scope), Err(RenderError::Needs(needs)) if needs.len() == 1));
}

#[test]
fn an_operation_that_does_not_fit_names_its_expression() {
    let (code, message, span) = failure("{{ name + n }}", &scope());
    assert_eq!(
        (code, message.as_str()),
        ("TEMPLATE_ERROR", "cannot apply `+` to string and number, in `name + n`")
    );
    assert_eq!((span.column, span.start, span.end), (8, 103, 111));
    assert!(!is_true("n is divisibleby 0", &scope()));
    assert_eq!(failure("{{ items[::0] }}", &scope()).0, "TEMPLATE_ERROR");
    assert_eq!(failure("{{ none < 5 }}", &scope()).0, "TEMPLATE_ERROR");
    assert_eq!(failure("{{ 'abc' | int }}", &scope()).0, "TEMPLATE_ERROR");
    assert_eq!(failure("{{ 9223372036854775807 * 4 }}", &scope()).0, "TEMPLATE_ERROR");
}

#[test]
fn a_loops_name_ends_with_the_loop() {
    let source = "{% for n in items %}{{ n }}{% endfor %}-{{ n }}";
    assert_eq!(render(source, &scope()), json!("12-1"));
}

#[test]
fn a_condition_of_text_around_values_is_refused() {
    let error = Template::condition("{{ outcome.status }} == 'ok'", any_span()).unwrap_err();
    assert!(
        error.message.starts_with("a condition must be one expression"),
        "{error}"
    );
    assert!(is_true("{% if n %}true{% endif %}", &scope()));
}

#[test]
fn an_error_does_not_quote_a_secret() {
    let scope = Scope {
        keychain: Some(LazyValue::new(json!({"k": {"n": 31_337}}))),
        reveals_secrets: true,
        ..scope()
    };
    let (code, message, _) = failure("{{ keychain.k.n // 0 }}", &scope);
    assert_eq!(code, "TEMPLATE_ERROR");
    assert!(!message.contains("31337"), "{message}");
    let (_, message, _) = failure("{{ big // 0 }}", &scope);
    assert!(message.contains("9007199254740993"), "{message}");
}

#[test]
fn ordinary_work_on_a_large_context_is_within_budget() {
    let row = json!({"id": 1, "name": "a row of some length", "tags": ["a", "b"], "ok": true});
    let rows = vec![row; 20_000];
    let scope = Scope {
        workload: LazyValue::new(json!({"rows": rows})),
        ..Scope::default()
    };
    let source = "{{ (rows | selectattr('ok') | map(attribute='id') | list | length) + workload.get('rows') | length + (rows | first).id }}";
    assert_eq!(render(source, &scope), json!(40_001));
    let text = render(
        "{% for row in rows[:5000] %}{{ row.id }}:{{ row.name }};{% endfor %}",
        &scope,
    );
    assert_eq!(text.as_str().unwrap().len(), 5000 * 23);
    assert_eq!(render("{{ rows }}", &scope).as_array().unwrap().len(), 20_000);
}

fn body_reference(bytes: u64) -> ResultRef {
    let short = json!({"store": "disk", "key": "noetl://execution/1/big", "size": bytes, "checksum": "ab".repeat(32)});
    ResultRef::from_map(short.as_object().unwrap()).unwrap()
}

fn with_body(bytes: u64, loaded: Option<Value>) -> Scope {
    let mut scope = Scope::default();
    let success = Success {
        reference: Some(Box::new(body_reference(bytes))),
        ..Success::default()
    };
    let envelope = Envelope::from_outcome(Arc::new(Outcome::Ok(success)));
    scope.labels.insert("big".into(), envelope);
    if let Some(value) = loaded {
        let mut values = LoadedValues::default();
        values
            .bodies
            .insert("noetl://execution/1/big".to_owned(), LazyValue::new(value));
        scope.loaded = Arc::new(values);
    }
    scope
}

#[test]
fn a_plain_path_into_a_body_is_named_without_loading_it() {
    let scope = with_body(10, None);
    let paths = |source: &str| {
        let template = Template::parse(source, Span::default()).unwrap();
        let bound = template.body_path(&scope).unwrap();
        bound.map(|bound| serde_json::to_value(bound.paths).unwrap())
    };
    assert_eq!(paths("{{ big }}"), Some(json!([[]])));
    assert_eq!(paths("{{ big.data }}"), Some(json!([["data"], []])));
    assert_eq!(
        paths("{{ big.data.rows[3].n }}"),
        Some(json!([["rows", 3, "n"], ["data", "rows", 3, "n"]]))
    );
    assert_eq!(paths("{{ big.rows }}"), Some(json!([["rows"], ["data", "rows"]])));
    assert_eq!(paths("{{ big.result.rows }}"), Some(json!([["rows"]])));
    assert_eq!(paths("{{ big.data | length }}"), None);
    assert_eq!(paths("x {{ big }}"), None);
    assert_eq!(paths("{{ big._uri }}"), None);
}

#[test]
fn a_plain_path_to_a_large_value_is_not_charged() {
    let rows = json!({"rows": vec!["x".repeat(1_000); 14_000]});
    let scope = with_body(14_000_000, Some(rows.clone()));
    let render = |source: &str| Template::parse(source, Span::default()).unwrap().render(&scope);
    assert_eq!(render("{{ big.rows }}").unwrap().value, rows["rows"]);
    assert!(render("{{ big.rows + [] }}").is_err());
}

#[test]
fn a_reference_tells_its_address_and_asks_for_a_file() {
    let scope = with_body(10, None);
    let render = |source: &str| Template::parse(source, Span::default()).unwrap().render(&scope);
    assert_eq!(
        render("{{ big._uri }}").unwrap().value,
        json!("noetl://execution/1/big")
    );
    let Err(RenderError::Needs(needs)) = render("cat {{ big.data._file }}") else {
        panic!("expected a need for the file")
    };
    let [Need::File(need)] = &needs[..] else {
        panic!("{needs:?}")
    };
    assert!(need.key.contains("noetl://execution/1/big"));
}
