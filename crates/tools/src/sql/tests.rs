//! Splitting and binding, by example and by property.

use model::template::Piece;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::sql::{BindError, Dialect, Params, Statement, bind};

fn text(text: &str) -> Piece {
    Piece::Text(text.to_owned())
}

fn value(value: impl Into<Value>) -> Piece {
    Piece::Value(value.into())
}

fn one(pieces: &[Piece], dialect: Dialect) -> Statement {
    let mut statements = bind(pieces, dialect, &Params::None).unwrap();
    assert_eq!(statements.len(), 1, "{statements:?}");
    statements.remove(0)
}

/// The statements of author text alone.
fn split(sql: &str, dialect: Dialect) -> Vec<String> {
    let statements = bind(&[text(sql)], dialect, &Params::None).unwrap();
    statements.into_iter().map(|s| s.text).collect()
}

#[test]
fn semicolons_split_only_among_tokens() {
    let sql = "-- a; b\nINSERT INTO t VALUES ('x; y', \"c;d\"); /* ; */ SELECT 1;;\n; ";
    assert_eq!(
        split(sql, Dialect::Sqlite),
        [
            "-- a; b\nINSERT INTO t VALUES ('x; y', \"c;d\")",
            "/* ; */ SELECT 1"
        ]
    );
    let dollar = "DO $f$ BEGIN; 'x; END $f$; SELECT $$;$$, E'\\';'; SELECT /* /* ; */ ; */ 2";
    assert_eq!(
        split(dollar, Dialect::Postgres),
        [
            "DO $f$ BEGIN; 'x; END $f$",
            "SELECT $$;$$, E'\\';'",
            "SELECT /* /* ; */ ; */ 2"
        ]
    );
    let quoted = "SELECT `a;b`, [c;d]; SELECT 'it''s; ok'";
    assert_eq!(
        split(quoted, Dialect::Sqlite),
        ["SELECT `a;b`, [c;d]", "SELECT 'it''s; ok'"]
    );
}

#[test]
fn a_trigger_keeps_its_body() {
    let sql = "CREATE TEMP TRIGGER r AFTER INSERT ON t BEGIN UPDATE t SET a = CASE WHEN 1 THEN 2 END; DELETE FROM u; END; SELECT 1";
    let statements = split(sql, Dialect::Sqlite);
    assert_eq!(statements.len(), 2, "{statements:?}");
    assert_eq!(statements[1], "SELECT 1");
}

#[test]
fn a_value_among_tokens_is_bound() {
    let pieces = [
        text("SELECT * FROM t WHERE a = "),
        value("x' OR 1=1 --"),
        text(" AND b="),
        value(2),
    ];
    let statement = one(&pieces, Dialect::Sqlite);
    assert_eq!(statement.text, "SELECT * FROM t WHERE a = ?1 AND b=?2");
    assert_eq!(statement.params, [json!("x' OR 1=1 --"), json!(2)]);
    assert_eq!(
        one(&pieces, Dialect::Postgres).text,
        "SELECT * FROM t WHERE a = $1 AND b=$2"
    );
}

#[test]
fn a_value_in_quotes_is_escaped_once() {
    let quoted = |v: &str| one(&[text("SELECT 'a "), value(v), text("'")], Dialect::Sqlite).text;
    assert_eq!(quoted("it's"), "SELECT 'a it''s'");
    assert_eq!(quoted("it''s"), "SELECT 'a it''s'");
    assert_eq!(quoted("it'''s"), "SELECT 'a it''''''s'");
}

#[test]
fn an_identifier_is_quoted_and_a_name_is_only_extended_by_letters() {
    let pieces = [text("SELECT * FROM "), Piece::Ident(json!("s.t\"x"))];
    assert_eq!(
        one(&pieces, Dialect::Sqlite).text,
        "SELECT * FROM \"s\".\"t\"\"x\""
    );
    let part = [text("SELECT * FROM log_"), value(2024), text("_v")];
    assert_eq!(one(&part, Dialect::Sqlite).text, "SELECT * FROM log_2024_v");
    let bad = [text("SELECT * FROM log_"), value("1; DROP TABLE t")];
    assert_eq!(
        bind(&bad, Dialect::Sqlite, &Params::None),
        Err(BindError::Ident("1; DROP TABLE t".to_owned()))
    );
}

#[test]
fn a_name_is_not_extended_by_what_a_database_takes_for_a_blank() {
    for dialect in [Dialect::Sqlite, Dialect::Postgres, Dialect::Duckdb] {
        for blank in ['\u{a0}', '\u{2003}', '\u{3000}', '\u{200b}', '\u{feff}'] {
            let wide = format!("a{blank}JOIN{blank}secrets");
            let pieces = [text("SELECT * FROM log_"), value(wide.as_str())];
            let refused = bind(&pieces, dialect, &Params::None);
            assert_eq!(refused, Err(BindError::Ident(wide)));
            let apart = [
                text(&format!("SELECT *{blank}FROM t WHERE a ={blank}")),
                value("b"),
            ];
            assert_eq!(one(&apart, dialect).params, [json!("b")]);
        }
    }
    let letters = [text("SELECT * FROM log_"), value("é")];
    assert_eq!(one(&letters, Dialect::Duckdb).text, "SELECT * FROM log_é");
}

#[test]
fn a_value_right_after_a_backslash_is_refused() {
    for dialect in [Dialect::Postgres, Dialect::Duckdb] {
        let with = |before: &str| {
            let pieces = [text(before), value("' OR 1=1 --"), text("'")];
            bind(&pieces, dialect, &Params::None)
        };
        assert!(matches!(with(r"SELECT E'dir\"), Err(BindError::Place(_))));
        assert!(matches!(with(r"SELECT E'\\\"), Err(BindError::Place(_))));
        assert!(with(r"SELECT E'dir\\").is_ok());
        assert!(with(r"SELECT 'dir\").is_ok());
    }
}

#[test]
fn a_list_after_in_becomes_several_parameters() {
    let pieces = [
        text("SELECT 1 WHERE a IN ("),
        value(json!([1, "b"])),
        text(")"),
    ];
    let statement = one(&pieces, Dialect::Sqlite);
    assert_eq!(statement.text, "SELECT 1 WHERE a IN (?1, ?2)");
    let none = [text("SELECT 1 WHERE a in ( "), value(json!([])), text(")")];
    assert_eq!(
        one(&none, Dialect::Sqlite).text,
        "SELECT 1 WHERE a in ( NULL)"
    );
}

#[test]
fn the_authors_placeholders_take_from_params() {
    let list = Params::List(vec![json!("a"), json!("b")]);
    let pieces = [
        text("INSERT INTO t VALUES (?, "),
        value(9),
        text("); SELECT ?, '?', ?1"),
    ];
    let statements = bind(&pieces, Dialect::Sqlite, &list).unwrap();
    assert_eq!(statements[0].params, [json!("a"), json!(9)]);
    assert_eq!(statements[1].text, "SELECT ?1, '?', ?2");
    assert_eq!(statements[1].params, [json!("b"), json!("a")]);
    let map = Params::Map(json!({"n": 1}).as_object().unwrap().clone());
    let named = bind(&[text("SELECT :n::int, a::text")], Dialect::Postgres, &map).unwrap();
    assert_eq!(named[0].text, "SELECT $1::int, a::text");
    assert_eq!(
        bind(&[text("SELECT :gone")], Dialect::Sqlite, &map),
        Err(BindError::Missing("gone".to_owned()))
    );
}

#[test]
fn dollar_quotes_take_no_dollars() {
    let pieces = [text("SELECT $a$ "), value("x $a$; DROP"), text(" $a$")];
    assert!(matches!(
        bind(&pieces, Dialect::Postgres, &Params::None),
        Err(BindError::Place(_))
    ));
}

#[test]
fn quotes_that_go_on_keep_their_escapes() {
    let attack = r"\' ; DROP";
    for before in ["SELECT E'it''s ", "SELECT E'a'\n '", "SELECT E'a' -- b\n'"] {
        let pieces = [text(before), value(attack), text("'")];
        let bound = one(&pieces, Dialect::Postgres).text;
        assert!(bound.ends_with(r"\\'' ; DROP'"), "{bound}");
    }
    let plain = [text("SELECT 'it''s "), value(attack), text("'")];
    assert!(
        one(&plain, Dialect::Postgres)
            .text
            .ends_with(r"\'' ; DROP'")
    );
}

#[test]
fn values_are_refused_where_they_would_be_read_as_something_else() {
    for before in [
        "SELECT U&'",
        "SELECT u&\"",
        "DO $$ BEGIN PERFORM '",
        "DO 'BEGIN ",
        "CREATE OR REPLACE FUNCTION f() RETURNS int AS $f$ SELECT ",
    ] {
        let refused = bind(
            &[text(before), value("x")],
            Dialect::Postgres,
            &Params::None,
        );
        assert!(
            matches!(refused, Err(BindError::Place(_))),
            "{before}: {refused:?}"
        );
    }
    let numbers = [text("SELECT $1, "), value(1)];
    assert_eq!(
        bind(&numbers, Dialect::Postgres, &Params::None),
        Err(BindError::Unnumbered)
    );
}

#[test]
fn postgres_names_hold_dollars_and_routines_hold_semicolons() {
    assert_eq!(
        split("SELECT a$$b; SELECT c$$d", Dialect::Postgres).len(),
        2
    );
    assert_eq!(split("SELECT $é$;$é$, 1", Dialect::Postgres).len(), 1);
    let trigger = "CREATE TRIGGER t BEFORE INSERT ON x EXECUTE FUNCTION f(); SELECT 1";
    assert_eq!(split(trigger, Dialect::Postgres).len(), 2);
    let routine = "CREATE OR REPLACE PROCEDURE p() BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END; SELECT 3";
    assert_eq!(split(routine, Dialect::Postgres).len(), 2);
    assert_eq!(
        split("BEGIN; SELECT 1; END; SELECT 2", Dialect::Postgres).len(),
        4
    );
}

#[test]
fn a_statement_knows_what_it_does_and_where_it_begins() {
    let sql = "-- one\nSELECT 1;\n\nWITH a AS (SELECT 1)\nUPDATE t SET x = 1";
    let statements = bind(&[text(sql)], Dialect::Postgres, &Params::None).unwrap();
    let seen: Vec<(&str, &str, usize)> = statements
        .iter()
        .map(|s| (s.first_word(), s.verb.as_str(), s.line))
        .collect();
    assert_eq!(seen, [("SELECT", "SELECT", 1), ("WITH", "UPDATE", 4)]);
}

#[test]
fn literals_mean_the_same_whatever_a_backslash_means() {
    let pieces = [
        text("  COMMENT ON TABLE t IS "),
        value(r"it's \ so"),
        text(" -"),
        value(-1),
        text(", "),
        value(Value::Null),
    ];
    let statement = one(&pieces, Dialect::Postgres);
    assert_eq!(
        statement.with_literals(),
        r"COMMENT ON TABLE t IS  E'it''s \\ so' - -1, NULL"
    );
}

/// What sqlite itself makes of a statement.
fn answer(statement: &Statement) -> String {
    let db = rusqlite::Connection::open_in_memory().unwrap();
    let params = statement
        .params
        .iter()
        .map(|v| v.as_str().unwrap().to_owned());
    let params = rusqlite::params_from_iter(params.collect::<Vec<_>>());
    db.query_row(&statement.text, params, |row| row.get(0))
        .unwrap()
}

proptest! {
    #[test]
    fn every_value_comes_back_from_every_place(v in "[^\u{0}]{0,24}|['\";$-]{0,12}") {
        for (before, after) in [("SELECT ", ""), ("SELECT /* it's */ ", " -- '"), ("SELECT ", "\n;\n")] {
            let statement = one(&[text(before), value(v.clone()), text(after)], Dialect::Sqlite);
            prop_assert_eq!(answer(&statement), v.clone());
        }
        // A text whose quotes are all doubled counts as escaped already.
        let quoted = one(&[text("SELECT '"), value(v.clone()), text("'")], Dialect::Sqlite);
        let seen = answer(&quoted);
        prop_assert!(seen == v || seen == v.replace("''", "'"), "{seen:?} {v:?}");
        if !v.is_empty() {
            let named = one(&[text("SELECT 1 AS \""), value(v.clone()), text("\"")], Dialect::Sqlite);
            let db = rusqlite::Connection::open_in_memory().unwrap();
            let prepared = db.prepare(&named.text).unwrap();
            prop_assert_eq!(prepared.column_name(0).unwrap(), v.as_str());
        }
        let comment = one(&[text("SELECT 'k' -- "), value(v.clone()), text("\n")], Dialect::Sqlite);
        prop_assert_eq!(answer(&comment), "k");
        let block = one(&[text("SELECT /* "), value(v.clone()), text(" */ 'k'")], Dialect::Sqlite);
        prop_assert_eq!(answer(&block), "k");
    }

    #[test]
    fn splitting_loses_nothing_but_semicolons_and_blanks(sql in "[a-z'\"\\-/*;\n ]{0,60}") {
        for dialect in [Dialect::Sqlite, Dialect::Postgres] {
            let parts = split(&sql, dialect);
            let strip = |s: &str| s.replace([';', ' ', '\n'], "");
            let joined: String = parts.iter().map(|p| strip(p)).collect();
            // What is dropped is comments that stand alone.
            prop_assert!(joined.len() <= strip(&sql).len());
            for part in &parts {
                prop_assert!(sql.contains(part.as_str()));
            }
        }
    }
}
