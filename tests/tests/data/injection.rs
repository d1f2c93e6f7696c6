//! Attempts to break out of a value's place in a statement of DuckDB, in every place a value can stand. Nothing may
//! change, no other statement may run, and what comes back is what went in.

use std::path::Path;

use language::template::Piece;
use model::outcome::Outcome;
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};
use tests::injection::{around, in_quotes};
use tools::{Call, Registry};

use crate::fixture::{command_call, run_call, sql_call, success_value, tool_registry};

/// What would be run besides, if a value got out of its place.
const ATTACKS: [&str; 6] = [
    " FROM canary --",
    "; FROM canary; --",
    "; COPY canary TO 'stolen.csv'; DROP TABLE canary; --",
    "; ATTACH ':memory:' AS evil; DELETE FROM canary; --",
    "; SET memory_limit = '1KB'; DELETE FROM canary; --",
    "; CREATE OR REPLACE TABLE canary AS SELECT 0 AS n; --",
];

/// Number of parts into which the corpus is split.
const PARTS: usize = 4;

/// What an attacker sends.
fn corpus() -> Vec<String> {
    tests::injection::corpus(&ATTACKS)
}

/// A part of it, and for the next number another one: every call that is alone opens a database.
fn part_of_corpus(number: usize) -> Vec<String> {
    let corpus = corpus().into_iter();
    corpus.skip(number % PARTS).step_by(PARTS).collect()
}

/// A database with a table that no statement may change.
struct CanaryDatabase {
    tools: Registry,
    dir: TempDir,
}

impl CanaryDatabase {
    async fn new() -> Self {
        let dir = tempdir().unwrap();
        let made = Self {
            tools: tool_registry(dir.path()),
            dir,
        };
        let tables = "CREATE TABLE canary (n INT, secret TEXT); \
            INSERT INTO canary SELECT n, 's' || n FROM range(1, 6) r(n); \
            CREATE TABLE kept (v TEXT); CREATE TABLE other (v TEXT)";
        success_value(made.outcome(vec![Piece::Text(tables.to_owned())]).await);
        made
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn call(&self, pieces: Vec<Piece>) -> Call {
        command_call(self.path(), pieces, json!({"database": "canary.duckdb"}))
    }

    async fn outcome(&self, pieces: Vec<Piece>) -> Outcome {
        run_call(&self.tools, self.call(pieces)).await
    }

    /// The content of the table, the names of all tables, and the number of databases.
    async fn state(&self) -> Value {
        let state = "SELECT count(*) || ':' || sum(n) || ':' || string_agg(secret, ',' ORDER BY n) AS canary, \
            (SELECT string_agg(table_name, ',' ORDER BY table_name) FROM duckdb_tables() WHERE NOT temporary) AS tables, \
            (SELECT count(*) FROM duckdb_databases() WHERE NOT internal) AS databases FROM canary";
        let call = sql_call(self.path(), state, json!({"database": "canary.duckdb"}));
        success_value(run_call(&self.tools, call).await)["rows"][0].clone()
    }

    async fn assert_untouched(&self, context: &str) {
        let expected = json!({"canary": "5:15:s1,s2,s3,s4,s5", "tables": "canary,kept,other", "databases": 1});
        assert_eq!(self.state().await, expected, "{context}");
        assert!(!Path::new("stolen.csv").exists(), "{context}");
    }
}

/// Runs the corpus in a context, all values in one call. The last statement of each must return one of these.
async fn exact(before: &str, after: &str, expected: impl Fn(&str) -> Vec<String>) {
    let database = CanaryDatabase::new().await;
    let values = corpus();
    let in_context = |value: &String| around(before, value, &format!("{after}\n;\n"));
    let pieces = values.iter().flat_map(in_context).collect();
    let outcome = database.outcome(pieces).await;
    let Outcome::Ok(success) = outcome else {
        panic!("{before}…{after}: {outcome:?}")
    };
    let results = success.result;
    let statements = 1 + format!("{before}{after}").matches("; SELECT").count();
    for (at, value) in values.iter().enumerate() {
        let command_result = &results[format!("command_{}", at * statements + statements - 1)];
        assert_eq!(
            command_result["row_count"], 1,
            "{before}{value:?}{after}: {command_result}"
        );
        let row = command_result["rows"][0].as_object().unwrap();
        let row_value = row.values().next().unwrap();
        let expected = expected(value);
        assert!(
            expected.iter().any(|text| row_value == text.as_str()),
            "{before}{value:?}{after}: {row_value}"
        );
    }
    let count = values.len() * statements;
    assert!(results[format!("command_{count}")].is_null(), "{before}{after}");
    database.assert_untouched(before).await;
}

/// Runs a part of the corpus in each context; most values are refused there.
async fn harmless(places: &[(&str, &str)]) {
    for (at, (before, after)) in places.iter().enumerate() {
        let database = CanaryDatabase::new().await;
        for value in part_of_corpus(at) {
            database.outcome(around(before, &value, after)).await;
        }
        database.assert_untouched(before).await;
    }
}

fn same(value: &str) -> Vec<String> {
    vec![value.to_owned()]
}

fn quoted(value: &str) -> Vec<String> {
    in_quotes(value).to_vec()
}

#[tokio::test]
async fn values_between_tokens_round_trip() {
    for (before, after) in [
        ("SELECT ", "::VARCHAR AS v"),
        ("SELECT /* it's */ ", " || '' -- '"),
        ("WITH x AS (SELECT ", "::VARCHAR AS v) SELECT v FROM x"),
        ("FROM (SELECT 1) SELECT ", "::VARCHAR AS v"),
        ("SELECT ['x', ", "][2] AS v"),
        ("SELECT {'a': ", "}['a'] AS v"),
        ("SELECT list_transform([1], lambda x: ", "::VARCHAR)[1] AS v"),
        ("INSERT INTO other VALUES (", ") RETURNING v"),
        ("CREATE OR REPLACE TEMP MACRO made() AS ", "; SELECT made() AS v"),
        (
            "COMMENT ON TABLE other IS ",
            "; SELECT coalesce(comment, '') AS v FROM duckdb_tables() WHERE table_name = 'other'",
        ),
    ] {
        exact(before, after, same).await;
    }
}

#[tokio::test]
async fn values_in_quotes_round_trip() {
    for (before, after) in [
        ("SELECT '", "' AS v"),
        ("SELECT ['", "', 'x'][1] AS v"),
        ("SELECT {'a': '", "'}['a'] AS v"),
        ("SELECT list_transform([1], lambda x: '", "')[1] AS v"),
        ("SELECT /* it's */ '", "' AS v -- '"),
        ("SELECT -- it's\r '", "' AS v"),
        ("CREATE OR REPLACE TEMP MACRO made() AS '", "'; SELECT made() AS v"),
        ("SET VARIABLE made = '", "'; SELECT getvariable('made') AS v"),
    ] {
        exact(before, after, quoted).await;
    }
    exact("SELECT 'it''s ", " so' AS v", |v| {
        in_quotes(v).map(|v| format!("it's {v} so")).to_vec()
    })
    .await;
    exact("SELECT 'a'\n  '", "' AS v", |v| {
        in_quotes(v).map(|v| format!("a{v}")).to_vec()
    })
    .await;
}

#[tokio::test]
async fn values_in_other_quotes_and_comments_round_trip() {
    exact("SELECT E'", "' AS v", same).await;
    exact("SELECT e'it''s \\' ", "' AS v", |v| vec![format!("it's ' {v}")]).await;
    exact("SELECT $$", "$$ AS v", same).await;
    exact("SELECT $a$it's ", "$a$ AS v", |v| vec![format!("it's {v}")]).await;
    exact("SELECT $q1$", "$q1$ || $$$$ AS v", same).await;
    exact("SELECT 'k' AS v -- ", "\n", |_| vec!["k".to_owned()]).await;
    exact("SELECT /* /* ", " */ */ 'k' AS v", |_| vec!["k".to_owned()]).await;
}

#[tokio::test]
async fn values_as_numbers_and_parts_of_names_change_nothing() {
    harmless(&[
        ("SELECT * FROM canary WHERE n = ", ""),
        ("SELECT * FROM canary LIMIT ", ""),
        ("SELECT * FROM can", ""),
        ("SELECT U&'", "'"),
        ("SELECT E'dir\\", "'"),
        ("SELECT * FROM '", "'"),
        ("FROM query('SELECT ''", "''')"),
        ("PRAGMA table_info('", "')"),
    ])
    .await;
}

#[tokio::test]
async fn values_in_the_position_of_a_name_are_quoted_as_names() {
    harmless(&[
        ("SELECT * FROM ", ""),
        ("FROM ", " SELECT 1"),
        ("DELETE FROM main.", " RETURNING *"),
        ("UPDATE ", " SET n = 0"),
        ("INSERT INTO kept (", ") VALUES ('x')"),
        ("SELECT ", ".v FROM kept"),
        ("CREATE TEMP TABLE ", " (n INT)"),
        ("SELECT \"", "\" FROM kept"),
    ])
    .await;
    let database = CanaryDatabase::new().await;
    let names: Vec<String> = corpus()
        .into_iter()
        .filter(|value| !value.is_empty() && !value.contains('.'))
        .collect();
    let in_context = |value: &String| around("SELECT 1 AS ", value, ";\n");
    let pieces = names.iter().flat_map(in_context).collect();
    let results = success_value(database.outcome(pieces).await);
    for (at, name) in names.iter().enumerate() {
        assert_eq!(results[format!("command_{at}")]["columns"], json!([name]));
    }
}

#[tokio::test]
async fn values_that_name_a_file_write_only_that_file() {
    let database = CanaryDatabase::new().await;
    let folder = database.path().join("out");
    std::fs::create_dir(&folder).unwrap();
    let before = format!("COPY other TO '{}/", folder.display());
    for value in part_of_corpus(0) {
        let copied = database.outcome(around(&before, &value, "'")).await;
        if !value.contains('/') && !value.is_empty() {
            success_value(copied);
            let names = in_quotes(&value).map(|name| folder.join(name));
            assert!(names.iter().any(|name| name.is_file()), "{value:?}");
        }
    }
    database.assert_untouched("COPY").await;
}

#[tokio::test]
async fn an_attack_that_gets_out_is_noticed() {
    let database = CanaryDatabase::new().await;
    // What copies a table would leave a file.
    let attacks = part_of_corpus(0).into_iter();
    for attack in attacks.filter(|attack| !attack.contains("COPY")) {
        let raw = vec![
            Piece::Text("SELECT '".to_owned()),
            Piece::Raw(attack),
            Piece::Text("'".to_owned()),
        ];
        database.outcome(raw).await;
    }
    let state = run_call(
        &database.tools,
        sql_call(
            database.path(),
            "SELECT count(*) AS n FROM canary WHERE n BETWEEN 1 AND 5",
            json!({"database": "canary.duckdb"}),
        ),
    )
    .await;
    let is_untouched = matches!(&state, Outcome::Ok(success) if success.result["rows"] == json!([{"n": 5}]));
    assert!(!is_untouched, "a corpus that cannot fail shows nothing");
}
