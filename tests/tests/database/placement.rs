//! Values in statements, by their position, as the server parses them.

use language::template::{LazyValue, Piece, Scope, Template};
use model::source::Span;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use tools::Call;

use crate::fixture::{DatabaseFixture, failure_error, first_row, new_call};

/// A call of a template over a map, as a worker makes it.
fn template_call(fixture: &DatabaseFixture, source: &str, workload: Value) -> Call {
    let scope = Scope {
        workload: LazyValue::new(workload),
        ..Scope::default()
    };
    let template = Template::parse(source, Span::default()).expect("the template is sound");
    let rendered = template.rendered_pieces(&scope);
    let rendered = rendered.expect("the template renders");
    let mut call = new_call(&fixture.database.url(), rendered.pieces);
    call.origins.insert("command".to_owned(), vec![rendered.origins]);
    call
}

#[tokio::test]
async fn numbers_have_types_and_an_expression_is_one_parameter() {
    let fixture = DatabaseFixture::new();
    let query_rows = async |source: &str, workload: Value| {
        let call = template_call(&fixture, source, workload);
        fixture.call_result(call).await["rows"].clone()
    };
    let product = query_rows("SELECT {{ a }} * {{ b }} AS n", json!({"a": 3, "b": -4})).await;
    assert_eq!(product, json!([{"n": -12}]));
    let grouped = "SELECT (g - 1) / {{ size }} AS bucket, count(*) AS n FROM generate_series(1, 10) g \
                   GROUP BY (g - 1) / {{ size }} ORDER BY 1";
    let rows = query_rows(grouped, json!({"size": 4})).await;
    assert_eq!(rows.as_array().map(Vec::len), Some(3), "{rows}");
    let texts = "SELECT {{ k }} || g AS k, count(*) AS n FROM generate_series(1, 2) g GROUP BY {{ k }} || g ORDER BY 1";
    let rows = query_rows(texts, json!({"k": "x"})).await;
    assert_eq!(rows[1], json!({"k": "x2", "n": 1}));
}

#[tokio::test]
async fn a_value_whose_type_does_not_fit_is_converted_to_the_type_of_its_context() {
    let fixture = DatabaseFixture::new();
    fixture
        .query("CREATE TABLE t (name text, data jsonb, id int); INSERT INTO t VALUES ('5', '5', 5)")
        .await;
    for source in [
        "SELECT count(*) FROM t WHERE name = {{ n }}",
        "SELECT count(*) FROM t WHERE data = {{ n }}",
        "SELECT count(*) FROM t WHERE id = {{ s }} AND name = {{ s }}",
    ] {
        let call = template_call(&fixture, source, json!({"n": 5, "s": "5"}));
        assert_eq!(first_row(&fixture.call_result(call).await), 1, "{source}");
    }
}

#[tokio::test]
async fn names_bodies_and_quotes_take_values() {
    let fixture = DatabaseFixture::new();
    let names = "DROP TABLE IF EXISTS public.{{ t }}; CREATE TABLE public.{{ t }} (id int); \
                 INSERT INTO public.{{ t }} VALUES (1); SELECT count(*) AS n FROM {{ s }}";
    let workload = json!({"t": "t_min", "s": "public.t_min"});
    let made = fixture.call_result(template_call(&fixture, names, workload)).await;
    assert_eq!(first_row(&made), 1);
    let body = "DO $$ BEGIN IF '{{ id }}' = '' THEN RAISE EXCEPTION 'no id'; END IF; END $$;";
    fixture
        .call_result(template_call(&fixture, body, json!({"id": "it's $$ 7"})))
        .await;
    let quotes = "SELECT $${{ title }}$$ AS t";
    let cost = fixture.call_result(template_call(&fixture, quotes, json!({"title": "costs $5"})));
    assert_eq!(first_row(&cost.await), "costs $5");
}

#[tokio::test]
async fn an_error_points_at_the_line_of_the_playbook() {
    let fixture = DatabaseFixture::new();
    let source = "SELECT '{{ v }}',\n\n{% if v %}-- so\n{% endif %}\n  nosuch\nFROM generate_series(1, 2)";
    let mut call = template_call(&fixture, source, json!({"v": "a\nb"}));
    call.site.command_lines = vec![10];
    let failed = failure_error(&fixture.run_call(call).await);
    assert_eq!(failed.code, "PG_42703");
    assert_eq!(failed.details["line"], 14);
}

/// Statements with a value: the text before and after it.
const VIEWS: [(&str, &str); 6] = [
    ("SELECT ", "::text || 'x' AS a, 1 AS b"),
    ("SELECT 'p'::text || '", "' AS a, 1 AS b"),
    ("SELECT E'p' || '", "'::text AS a, 1 AS b"),
    ("SELECT $t$p", "q$t$::text AS a, 1 AS b"),
    ("SELECT a, ", "::text AS c FROM (SELECT 1 AS a) x WHERE a > 0 /* ' */"),
    ("SELECT 1 AS a, E'x", "y'::text AS b -- $t$"),
];

/// The definition of a view without its text literals.
async fn parse_tree(fixture: &DatabaseFixture, pieces: Vec<Piece>) -> Result<String, String> {
    let created = fixture.run_call(fixture.template_call(pieces)).await;
    if let Some(error) = created.failure() {
        return Err(format!("{}: {}", error.code, error.message));
    }
    let definition = fixture.query_value("SELECT pg_get_viewdef('made'::regclass)").await;
    Ok(without_literals(definition.as_str().unwrap_or_default()))
}

/// A text without its quoted literals, which the server writes as `'…'` and `E'…'`.
fn without_literals(text: &str) -> String {
    let mut stripped = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\'' {
            stripped.push(c);
            continue;
        }
        let escapes = stripped.ends_with('E');
        if escapes {
            stripped.pop();
        }
        while let Some(inside) = chars.next() {
            match inside {
                '\\' if escapes => drop(chars.next()),
                '\'' if chars.peek() == Some(&'\'') => drop(chars.next()),
                '\'' => break,
                _ => {}
            }
        }
        stripped.push_str("''");
    }
    stripped
}

#[test]
fn whatever_the_value_the_tree_differs_only_in_that_literal() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let fixture = DatabaseFixture::new();
    let view = |before: &str, value: &str, after: &str| {
        vec![
            Piece::Text(format!("DROP VIEW IF EXISTS made; CREATE VIEW made AS {before}")),
            Piece::Value(json!(value)),
            Piece::Text(after.to_owned()),
        ]
    };
    let plain: Vec<String> = VIEWS
        .iter()
        .map(|(before, after)| {
            let tree = runtime.block_on(parse_tree(&fixture, view(before, "v", after)));
            tree.expect("a plain value is fine")
        })
        .collect();
    let mut runner = TestRunner::new(Config {
        cases: 200,
        failure_persistence: None,
        ..Config::default()
    });
    let values = "[^\u{0}]{0,16}|['\"\\\\;$/*qt1 -]{0,12}|\\$t\\$[^\u{0}]{0,4}\\$[a-z]{0,2}";
    runner
        .run(&values, |value| {
            for ((before, after), plain) in VIEWS.iter().zip(&plain) {
                let tree = runtime.block_on(parse_tree(&fixture, view(before, &value, after)));
                prop_assert_eq!(tree.as_ref(), Ok(plain), "{}{:?}{}", before, value, after);
            }
            Ok(())
        })
        .expect("no value changes the tree");
}
