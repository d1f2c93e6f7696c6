//! SQL injection through values, in every context in which a template can put a value. No statement may change data, and
//! the value must be returned unchanged.

use language::template::Piece;
use model::outcome::Outcome;
use serde_json::{Value, json};
use tests::injection::{around, in_quotes};

use crate::fixture::{DatabaseFixture, first_row, with_params};

/// The values that an attacker sends.
fn attack_corpus() -> Vec<String> {
    tests::injection::corpus(&[])
}

/// A table that must not change, and one for values.
async fn injection_fixture() -> DatabaseFixture {
    let fixture = DatabaseFixture::new();
    fixture
        .query(
            "CREATE TABLE canary (n int, secret text); INSERT INTO canary SELECT n, 's' || n FROM generate_series(1, 5) n; \
             CREATE TABLE kept (v text); CREATE TABLE other (v text)",
        )
        .await;
    fixture
}

async fn assert_untouched(fixture: &DatabaseFixture, context: &str) {
    let sum = "SELECT count(*) || ':' || sum(n) || ':' || string_agg(secret, ',' ORDER BY n) FROM canary";
    let row = fixture.raw_client().await.query_one(sum, &[]).await;
    let row = row.unwrap_or_else(|error| panic!("{context}: {error:?}"));
    assert_eq!(row.get::<_, String>(0), "5:15:s1,s2,s3,s4,s5", "{context}");
}

/// Runs the corpus in a context where the value must be returned as one of these.
async fn check_exact(before: &str, after: &str, expected: impl Fn(&str) -> Vec<String>) {
    let fixture = injection_fixture().await;
    for value in attack_corpus() {
        let outcome = fixture
            .run_call(fixture.template_call(around(before, &value, after)))
            .await;
        let Outcome::Ok(success) = outcome else {
            panic!("{before}{value:?}{after}: {outcome:?}")
        };
        let returned = first_row(&success.result);
        let expected = expected(&value);
        assert!(
            expected.iter().any(|text| returned == text.as_str()),
            "{before}{value:?}{after}: {returned}"
        );
    }
    assert_untouched(&fixture, before).await;
}

/// Runs the corpus in a place where most values are refused.
async fn check_harmless(before: &str, after: &str) {
    let fixture = injection_fixture().await;
    for value in attack_corpus() {
        fixture
            .run_call(fixture.template_call(around(before, &value, after)))
            .await;
    }
    assert_untouched(&fixture, before).await;
}

fn unchanged(value: &str) -> Vec<String> {
    vec![value.to_owned()]
}

#[test]
fn the_corpus_is_large_enough() {
    assert!(attack_corpus().len() >= 300, "{}", attack_corpus().len());
}

#[tokio::test]
async fn values_among_tokens_come_back() {
    check_exact("SELECT ", "::text AS v", unchanged).await;
    check_exact("SELECT /* it's */ ", " || '' -- '", unchanged).await;
    check_exact("WITH x AS (SELECT ", "::text AS v) SELECT v FROM x", unchanged).await;
}

#[tokio::test]
async fn values_in_quotes_come_back() {
    check_exact("SELECT '", "' AS v", |v| in_quotes(v).to_vec()).await;
    check_exact("SELECT 'it''s ", " so' AS v", |v| {
        in_quotes(v).map(|v| format!("it's {v} so")).to_vec()
    })
    .await;
    for before in [
        "SELECT 'a'\n  '",
        "SELECT 'a' -- it's\n  '",
        "SELECT 'a' -- it's\r  '",
        "SELECT -- it's\r 'a",
    ] {
        check_exact(before, "' AS v", |v| in_quotes(v).map(|v| format!("a{v}")).to_vec()).await;
    }
    check_exact("SELECT 'a' -- it's\n || ", "::text AS v", |v| vec![format!("a{v}")]).await;
}

#[tokio::test]
async fn values_in_quotes_with_escapes_come_back() {
    check_exact("SELECT E'", "' AS v", unchanged).await;
    check_exact("SELECT e'it''s \\' ", "' AS v", |v| vec![format!("it's ' {v}")]).await;
    check_exact("SELECT E'a' -- so\n '", "' AS v", |v| vec![format!("a{v}")]).await;
}

#[tokio::test]
async fn values_in_comments_are_nothing() {
    check_exact("SELECT 'k' AS v -- ", "\n", |_| vec!["k".to_owned()]).await;
    check_exact("SELECT /* /* ", " */ */ 'k' AS v", |_| vec!["k".to_owned()]).await;
}

#[tokio::test]
async fn values_as_numbers_names_and_parts_of_names_change_nothing() {
    check_harmless("SELECT * FROM canary WHERE n = ", "").await;
    check_harmless("SELECT * FROM canary LIMIT ", "").await;
    check_harmless("SELECT * FROM can", "").await;
    check_harmless("SELECT 1 AS \"", "\"").await;
    check_harmless("SELECT U&'", "'").await;
    check_harmless("SELECT U&\"", "\" FROM canary").await;
    check_harmless("SELECT B'", "'").await;
}

#[tokio::test]
async fn values_in_dollar_quotes_come_back() {
    check_exact("SELECT $$", "$$ AS v", unchanged).await;
    check_exact("SELECT $a$it's ", "$a$ AS v", |v| vec![format!("it's {v}")]).await;
    check_exact("SELECT $q1$", "$q1$ || $$$$ AS v", unchanged).await;
    check_exact("SELECT $\u{1f980}$", "$\u{1f980}$ AS v", unchanged).await;
    check_harmless("SELECT $q$", "").await;
    check_harmless("SELECT $", "").await;
}

/// Runs the corpus in the body of a function, which gives it back.
async fn check_exact_in_body(head: &str, tail: &str, expected: impl Fn(&str) -> Vec<String>) {
    let before = format!("CREATE OR REPLACE FUNCTION made() RETURNS text {head}");
    let after = format!("{tail}; SELECT made() AS v");
    check_exact(&before, &after, expected).await;
}

#[tokio::test]
async fn values_in_the_bodies_of_routines_come_back() {
    check_exact_in_body("LANGUAGE sql AS $f$ SELECT '", "' $f$", |v| in_quotes(v).to_vec()).await;
    check_exact_in_body("LANGUAGE sql AS $$ SELECT E'", "' $$", unchanged).await;
    check_exact_in_body("LANGUAGE sql AS $$ SELECT ", "::text $$", unchanged).await;
    let tail = "$q$; END $$ LANGUAGE plpgsql";
    check_exact_in_body("AS $$ BEGIN RETURN $q$", tail, unchanged).await;
    let tail = "; -- '\n END $$ LANGUAGE plpgsql";
    check_exact_in_body("AS $$ BEGIN /* it's */ RETURN ", tail, unchanged).await;
    let head = "AS $$ DECLARE x text; BEGIN EXECUTE 'SELECT $1' INTO x USING ";
    let tail = "::text; RETURN x; END $$ LANGUAGE plpgsql";
    check_exact_in_body(head, tail, unchanged).await;
    let head = "AS $$ DECLARE x text; BEGIN EXECUTE format('SELECT %L', '";
    let tail = "') INTO x; RETURN x; END $$ LANGUAGE plpgsql";
    check_exact_in_body(head, tail, |v| in_quotes(v).to_vec()).await;
}

#[tokio::test]
async fn values_where_only_a_name_can_stand_are_only_names() {
    for (before, after) in [
        ("SELECT * FROM ", ""),
        ("SELECT * FROM other, ", " WHERE true"),
        ("DELETE FROM public.", " RETURNING *"),
        ("UPDATE ", " SET n = 0"),
        ("INSERT INTO kept (", ") VALUES ('x')"),
        ("UPDATE kept SET ", " = 'x'"),
        ("SELECT ", ".v FROM kept"),
        ("DO $$ BEGIN DELETE FROM ", "; END $$"),
        ("CREATE TEMP TABLE ", " (n int)"),
    ] {
        check_harmless(before, after).await;
    }
    let fixture = injection_fixture().await;
    for value in attack_corpus() {
        if value.is_empty() || value.contains('.') {
            continue;
        }
        let pieces = around("SELECT 1 AS ", &value, "");
        let result = fixture.call_result(fixture.template_call(pieces)).await;
        // The server cuts names at 63 bytes.
        let name = result["columns"][0].as_str().unwrap_or_default();
        assert!(!name.is_empty(), "{value:?}");
        assert!(value.starts_with(name), "{value:?}: {name}");
    }
    assert_untouched(&fixture, "column names").await;
}

#[tokio::test]
async fn values_in_programs_that_are_read_otherwise_are_refused() {
    let fixture = injection_fixture().await;
    for (before, after) in [
        ("DO 'BEGIN PERFORM ''", "''; END'"),
        ("DO $$ BEGIN EXECUTE 'SELECT ''", "'''; END $$"),
        ("DO $$ BEGIN EXECUTE 'SELECT ' || ", "; END $$"),
        (
            "CREATE FUNCTION g() RETURNS text LANGUAGE plperl AS $f$ return '",
            "'; $f$",
        ),
        ("CREATE FUNCTION g() RETURNS text LANGUAGE sql AS 'SELECT ''", "'''"),
    ] {
        for value in ["'; DELETE FROM canary; --", "x"] {
            let outcome = fixture
                .run_call(fixture.template_call(around(before, value, after)))
                .await;
            let error = outcome.failure().unwrap_or_else(|| panic!("{before}"));
            assert_eq!(error.code, "SQL_BIND", "{error:?}");
        }
    }
    assert_untouched(&fixture, "programs").await;
}

#[tokio::test]
async fn values_right_after_a_backslash_are_refused() {
    let fixture = injection_fixture().await;
    for value in attack_corpus() {
        let pieces = around("SELECT secret FROM canary WHERE secret = E'dir\\", &value, "'");
        let outcome = fixture.run_call(fixture.template_call(pieces)).await;
        let error = outcome.failure().unwrap_or_else(|| panic!("{value:?}"));
        assert_eq!(error.code, "SQL_BIND", "{error:?}");
    }
    assert_untouched(&fixture, "backslash").await;
}

#[tokio::test]
async fn values_in_patterns_lists_and_documents_come_back() {
    let fixture = injection_fixture().await;
    for value in attack_corpus() {
        let text = |text: &str| Piece::Text(text.to_owned());
        let one = || Piece::Value(json!(value));
        let pieces = vec![
            text("SELECT "),
            Piece::Value(json!([value, "x"])),
            text("::text[] AS list, "),
            Piece::Value(json!({"k": [value]})),
            text("::jsonb AS document, 'x' LIKE '%' || "),
            one(),
            text(" || '%' AS pattern, 'z' IN ("),
            Piece::Value(json!([value, "y"])),
            text(") AS among, '{\"a\": 1}'::jsonb -> "),
            one(),
            text(" AS path, 'y' = ANY ("),
            Piece::Value(json!([value, "y"])),
            text(") AS any"),
        ];
        let result = fixture.run_call(fixture.template_call(pieces)).await;
        let Outcome::Ok(success) = result else {
            panic!("{value:?}: {result:?}")
        };
        let row = &success.result["rows"][0];
        assert_eq!(row["list"], json!([value, "x"]));
        assert_eq!(row["document"], json!({"k": [value]}));
        assert_eq!(
            (&row["among"], &row["path"], &row["any"]),
            (&json!(false), &Value::Null, &json!(true))
        );
    }
    assert_untouched(&fixture, "documents").await;
}

#[tokio::test]
async fn names_given_as_names_are_only_names() {
    let fixture = injection_fixture().await;
    for value in attack_corpus() {
        let pieces = vec![Piece::Text("SELECT * FROM ".to_owned()), Piece::Ident(json!(value))];
        fixture.run_call(fixture.template_call(pieces)).await;
    }
    assert_untouched(&fixture, "names").await;
}

#[tokio::test]
async fn values_in_statements_without_parameters_come_back() {
    let fixture = injection_fixture().await;
    for value in attack_corpus() {
        let pieces = around(
            "COMMENT ON TABLE other IS ",
            &value,
            "; SELECT obj_description('other'::regclass) AS v",
        );
        let result = fixture.call_result(fixture.template_call(pieces)).await;
        let expected = if value.is_empty() { Value::Null } else { json!(value) };
        assert_eq!(first_row(&result), expected, "{value:?}");
    }
    assert_untouched(&fixture, "utility").await;
}

#[tokio::test]
async fn values_stored_and_read_are_no_more_dangerous_the_second_time() {
    let fixture = injection_fixture().await;
    for value in attack_corpus() {
        let store = fixture.sql_call("INSERT INTO kept VALUES ($1) RETURNING v");
        let stored = first_row(&fixture.call_result(with_params(store, json!([value]))).await);
        assert_eq!(stored, value.as_str());
        let read = fixture.sql_call("DELETE FROM kept WHERE v = :v RETURNING v");
        let read = first_row(&fixture.call_result(with_params(read, json!({"v": stored}))).await);
        assert_eq!(read, value.as_str());
    }
    assert_untouched(&fixture, "second order").await;
}

#[tokio::test]
async fn a_backslash_is_literal_whatever_the_session_sets() {
    let fixture = injection_fixture().await;
    let off = format!(
        "ALTER DATABASE {} SET standard_conforming_strings = off",
        fixture.database.name()
    );
    fixture
        .raw_client()
        .await
        .batch_execute(&off)
        .await
        .expect("an administrator may alter the database");
    let fixture = DatabaseFixture {
        tool: crate::fixture::postgres_tool(tools::postgres::PostgresConfig::default()),
        ..fixture
    };
    for value in attack_corpus() {
        let before = "SET standard_conforming_strings = off; SELECT set_config('standard_conforming_strings', 'off', false); SELECT '";
        for before in [before, "SELECT '"] {
            let result = fixture
                .run_call(fixture.template_call(around(before, &value, "' AS v")))
                .await;
            let Outcome::Ok(success) = result else {
                panic!("{value:?}: {result:?}")
            };
            let returned = first_row(&success.result);
            assert!(
                in_quotes(&value).iter().any(|text| returned == text.as_str()),
                "{value:?}: {returned}"
            );
        }
    }
    assert_untouched(&fixture, "backslashes").await;
}
