//! Attempts to break out of a value's place, in every place a value can stand. Nothing may change, and what comes back
//! is what went in.

use model::outcome::Outcome;
use model::template::Piece;
use serde_json::{Value, json};
use tests::injection::{around, in_quotes};

use crate::house::{House, first, params};

/// What an attacker sends.
fn corpus() -> Vec<String> {
    tests::injection::corpus(&[])
}

/// A table that nobody may touch, and one that holds values.
async fn house() -> House {
    let house = House::new();
    house
        .ask(
            "CREATE TABLE canary (n int, secret text); INSERT INTO canary SELECT n, 's' || n FROM generate_series(1, 5) n; \
             CREATE TABLE kept (v text); CREATE TABLE other (v text)",
        )
        .await;
    house
}

async fn assert_untouched(house: &House, place: &str) {
    let sum =
        "SELECT count(*) || ':' || sum(n) || ':' || string_agg(secret, ',' ORDER BY n) FROM canary";
    let row = house.raw().await.query_one(sum, &[]).await;
    let row = row.unwrap_or_else(|error| panic!("{place}: {error:?}"));
    assert_eq!(row.get::<_, String>(0), "5:15:s1,s2,s3,s4,s5", "{place}");
}

/// Runs the corpus in a place where the value must come back as one of these.
async fn exact(before: &str, after: &str, expected: impl Fn(&str) -> Vec<String>) {
    let house = house().await;
    for value in corpus() {
        let outcome = house
            .outcome(house.pieces(around(before, &value, after)))
            .await;
        let Outcome::Ok(success) = outcome else {
            panic!("{before}{value:?}{after}: {outcome:?}")
        };
        let found = first(&success.result);
        let expected = expected(&value);
        assert!(
            expected.iter().any(|text| found == text.as_str()),
            "{before}{value:?}{after}: {found}"
        );
    }
    assert_untouched(&house, before).await;
}

/// Runs the corpus in a place where most values are refused.
async fn harmless(before: &str, after: &str) {
    let house = house().await;
    for value in corpus() {
        house
            .outcome(house.pieces(around(before, &value, after)))
            .await;
    }
    assert_untouched(&house, before).await;
}

fn same(value: &str) -> Vec<String> {
    vec![value.to_owned()]
}

#[test]
fn the_corpus_is_large_enough() {
    assert!(corpus().len() >= 300, "{}", corpus().len());
}

#[tokio::test]
async fn values_among_tokens_come_back() {
    exact("SELECT ", "::text AS v", same).await;
    exact("SELECT /* it's */ ", " || '' -- '", same).await;
    exact("WITH x AS (SELECT ", "::text AS v) SELECT v FROM x", same).await;
}

#[tokio::test]
async fn values_in_quotes_come_back() {
    exact("SELECT '", "' AS v", |v| in_quotes(v).to_vec()).await;
    exact("SELECT 'it''s ", " so' AS v", |v| {
        in_quotes(v).map(|v| format!("it's {v} so")).to_vec()
    })
    .await;
    for before in [
        "SELECT 'a'\n  '",
        "SELECT 'a' -- it's\n  '",
        "SELECT 'a' -- it's\r  '",
        "SELECT -- it's\r 'a",
    ] {
        exact(before, "' AS v", |v| {
            in_quotes(v).map(|v| format!("a{v}")).to_vec()
        })
        .await;
    }
    exact("SELECT 'a' -- it's\n || ", "::text AS v", |v| {
        vec![format!("a{v}")]
    })
    .await;
}

#[tokio::test]
async fn values_in_quotes_with_escapes_come_back() {
    exact("SELECT E'", "' AS v", same).await;
    exact("SELECT e'it''s \\' ", "' AS v", |v| {
        vec![format!("it's ' {v}")]
    })
    .await;
    exact("SELECT E'a' -- so\n '", "' AS v", |v| vec![format!("a{v}")]).await;
}

#[tokio::test]
async fn values_in_comments_are_nothing() {
    exact("SELECT 'k' AS v -- ", "\n", |_| vec!["k".to_owned()]).await;
    exact("SELECT /* /* ", " */ */ 'k' AS v", |_| vec!["k".to_owned()]).await;
}

#[tokio::test]
async fn values_as_numbers_names_and_parts_of_names_change_nothing() {
    harmless("SELECT * FROM canary WHERE n = ", "").await;
    harmless("SELECT * FROM canary LIMIT ", "").await;
    harmless("SELECT * FROM can", "").await;
    harmless("SELECT 1 AS \"", "\"").await;
    harmless("SELECT U&'", "'").await;
    harmless("SELECT U&\"", "\" FROM canary").await;
    harmless("SELECT B'", "'").await;
}

#[tokio::test]
async fn values_in_dollar_quotes_come_back() {
    exact("SELECT $$", "$$ AS v", same).await;
    exact("SELECT $a$it's ", "$a$ AS v", |v| vec![format!("it's {v}")]).await;
    exact("SELECT $q1$", "$q1$ || $$$$ AS v", same).await;
    exact("SELECT $\u{1f980}$", "$\u{1f980}$ AS v", same).await;
    harmless("SELECT $q$", "").await;
    harmless("SELECT $", "").await;
}

/// Runs the corpus in the body of a function, which gives it back.
async fn exact_in_body(head: &str, tail: &str, expected: impl Fn(&str) -> Vec<String>) {
    let before = format!("CREATE OR REPLACE FUNCTION made() RETURNS text {head}");
    let after = format!("{tail}; SELECT made() AS v");
    exact(&before, &after, expected).await;
}

#[tokio::test]
async fn values_in_the_bodies_of_routines_come_back() {
    exact_in_body("LANGUAGE sql AS $f$ SELECT '", "' $f$", |v| {
        in_quotes(v).to_vec()
    })
    .await;
    exact_in_body("LANGUAGE sql AS $$ SELECT E'", "' $$", same).await;
    exact_in_body("LANGUAGE sql AS $$ SELECT ", "::text $$", same).await;
    let tail = "$q$; END $$ LANGUAGE plpgsql";
    exact_in_body("AS $$ BEGIN RETURN $q$", tail, same).await;
    let tail = "; -- '\n END $$ LANGUAGE plpgsql";
    exact_in_body("AS $$ BEGIN /* it's */ RETURN ", tail, same).await;
    let head = "AS $$ DECLARE x text; BEGIN EXECUTE 'SELECT $1' INTO x USING ";
    let tail = "::text; RETURN x; END $$ LANGUAGE plpgsql";
    exact_in_body(head, tail, same).await;
    let head = "AS $$ DECLARE x text; BEGIN EXECUTE format('SELECT %L', '";
    let tail = "') INTO x; RETURN x; END $$ LANGUAGE plpgsql";
    exact_in_body(head, tail, |v| in_quotes(v).to_vec()).await;
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
        harmless(before, after).await;
    }
    let house = house().await;
    for value in corpus() {
        if value.is_empty() || value.contains('.') {
            continue;
        }
        let pieces = around("SELECT 1 AS ", &value, "");
        let result = house.result(house.pieces(pieces)).await;
        // The server cuts names at 63 bytes.
        let name = result["columns"][0].as_str().unwrap_or_default();
        assert!(!name.is_empty(), "{value:?}");
        assert!(value.starts_with(name), "{value:?}: {name}");
    }
    assert_untouched(&house, "column names").await;
}

#[tokio::test]
async fn values_in_programs_that_are_read_otherwise_are_refused() {
    let house = house().await;
    for (before, after) in [
        ("DO 'BEGIN PERFORM ''", "''; END'"),
        ("DO $$ BEGIN EXECUTE 'SELECT ''", "'''; END $$"),
        ("DO $$ BEGIN EXECUTE 'SELECT ' || ", "; END $$"),
        (
            "CREATE FUNCTION g() RETURNS text LANGUAGE plperl AS $f$ return '",
            "'; $f$",
        ),
        (
            "CREATE FUNCTION g() RETURNS text LANGUAGE sql AS 'SELECT ''",
            "'''",
        ),
    ] {
        for value in ["'; DELETE FROM canary; --", "x"] {
            let outcome = house
                .outcome(house.pieces(around(before, value, after)))
                .await;
            let error = outcome.failure().unwrap_or_else(|| panic!("{before}"));
            assert_eq!(error.code, "SQL_BIND", "{error:?}");
        }
    }
    assert_untouched(&house, "programs").await;
}

#[tokio::test]
async fn values_right_after_a_backslash_are_refused() {
    let house = house().await;
    for value in corpus() {
        let pieces = around(
            "SELECT secret FROM canary WHERE secret = E'dir\\",
            &value,
            "'",
        );
        let outcome = house.outcome(house.pieces(pieces)).await;
        let error = outcome.failure().unwrap_or_else(|| panic!("{value:?}"));
        assert_eq!(error.code, "SQL_BIND", "{error:?}");
    }
    assert_untouched(&house, "backslash").await;
}

#[tokio::test]
async fn values_in_patterns_lists_and_documents_come_back() {
    let house = house().await;
    for value in corpus() {
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
        let result = house.outcome(house.pieces(pieces)).await;
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
    assert_untouched(&house, "documents").await;
}

#[tokio::test]
async fn names_given_as_names_are_only_names() {
    let house = house().await;
    for value in corpus() {
        let pieces = vec![
            Piece::Text("SELECT * FROM ".to_owned()),
            Piece::Ident(json!(value)),
        ];
        house.outcome(house.pieces(pieces)).await;
    }
    assert_untouched(&house, "names").await;
}

#[tokio::test]
async fn values_in_statements_without_parameters_come_back() {
    let house = house().await;
    for value in corpus() {
        let pieces = around(
            "COMMENT ON TABLE other IS ",
            &value,
            "; SELECT obj_description('other'::regclass) AS v",
        );
        let result = house.result(house.pieces(pieces)).await;
        let expected = if value.is_empty() {
            Value::Null
        } else {
            json!(value)
        };
        assert_eq!(first(&result), expected, "{value:?}");
    }
    assert_untouched(&house, "utility").await;
}

#[tokio::test]
async fn values_stored_and_read_are_no_more_dangerous_the_second_time() {
    let house = house().await;
    for value in corpus() {
        let store = house.sql("INSERT INTO kept VALUES ($1) RETURNING v");
        let stored = first(&house.result(params(store, json!([value]))).await);
        assert_eq!(stored, value.as_str());
        let read = house.sql("DELETE FROM kept WHERE v = :v RETURNING v");
        let read = first(&house.result(params(read, json!({"v": stored}))).await);
        assert_eq!(read, value.as_str());
    }
    assert_untouched(&house, "second order").await;
}

#[tokio::test]
async fn a_backslash_means_itself_whatever_the_session_says() {
    let house = house().await;
    let off = format!(
        "ALTER DATABASE {} SET standard_conforming_strings = off",
        house.db.name()
    );
    house
        .raw()
        .await
        .batch_execute(&off)
        .await
        .expect("an administrator may");
    let house = House {
        tool: crate::house::tool(tools::PostgresConfig::default()),
        ..house
    };
    for value in corpus() {
        let before = "SET standard_conforming_strings = off; SELECT set_config('standard_conforming_strings', 'off', false); SELECT '";
        for before in [before, "SELECT '"] {
            let result = house
                .outcome(house.pieces(around(before, &value, "' AS v")))
                .await;
            let Outcome::Ok(success) = result else {
                panic!("{value:?}: {result:?}")
            };
            let found = first(&success.result);
            assert!(
                in_quotes(&value).iter().any(|text| found == text.as_str()),
                "{value:?}: {found}"
            );
        }
    }
    assert_untouched(&house, "backslashes").await;
}
