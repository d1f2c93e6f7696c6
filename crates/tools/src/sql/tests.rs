//! Tests of splitting and binding, with examples and properties.

use language::template::{LazyValue, Piece, Scope, Template};
use model::source::Span;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::sql::{BindError, CommandText, Params, SqlDialect, SqlStatement};

/// Binds pieces without origins.
fn bind_pieces(pieces: &[Piece], dialect: SqlDialect, params: &Params) -> Result<Vec<SqlStatement>, BindError> {
    let origins = &[];
    crate::sql::bind_command(CommandText { pieces, origins }, dialect, params)
}

/// Binds a template, whose pieces have origins.
fn bind_template(source: &str, workload: Value, dialect: SqlDialect) -> SqlStatement {
    let scope = Scope {
        workload: LazyValue::new(workload),
        ..Scope::default()
    };
    let template = Template::parse(source, Span::default()).unwrap();
    let rendered = template.rendered_pieces(&scope).unwrap();
    let command = CommandText {
        pieces: &rendered.pieces,
        origins: &rendered.origins,
    };
    let mut statements = crate::sql::bind_command(command, dialect, &Params::None).unwrap();
    assert_eq!(statements.len(), 1, "{statements:?}");
    statements.remove(0)
}

const DIALECTS: [SqlDialect; 3] = [SqlDialect::Sqlite, SqlDialect::Postgres, SqlDialect::Duckdb];

fn text_piece(text: &str) -> Piece {
    Piece::Text(text.to_owned())
}

fn value_piece(value: impl Into<Value>) -> Piece {
    Piece::Value(value.into())
}

fn bind_one(pieces: &[Piece], dialect: SqlDialect) -> SqlStatement {
    let mut statements = bind_pieces(pieces, dialect, &Params::None).unwrap();
    assert_eq!(statements.len(), 1, "{statements:?}");
    statements.remove(0)
}

/// Splits playbook text without values.
fn split_statements(sql: &str, dialect: SqlDialect) -> Vec<String> {
    let statements = bind_pieces(&[text_piece(sql)], dialect, &Params::None).unwrap();
    statements.into_iter().map(|s| s.text().text).collect()
}

#[test]
fn semicolons_split_only_between_tokens() {
    let sql = "-- a; b\nINSERT INTO t VALUES ('x; y', \"c;d\"); /* ; */ SELECT 1;;\n; ";
    assert_eq!(
        split_statements(sql, SqlDialect::Sqlite),
        ["-- a; b\nINSERT INTO t VALUES ('x; y', \"c;d\")", "/* ; */ SELECT 1"]
    );
    let dollar = "DO $f$ BEGIN; 'x; END $f$; SELECT $$;$$, E'\\';'; SELECT /* /* ; */ ; */ 2";
    assert_eq!(
        split_statements(dollar, SqlDialect::Postgres),
        [
            "DO $f$ BEGIN; 'x; END $f$",
            "SELECT $$;$$, E'\\';'",
            "SELECT /* /* ; */ ; */ 2"
        ]
    );
    let quoted = "SELECT `a;b`, [c;d]; SELECT 'it''s; ok'";
    assert_eq!(
        split_statements(quoted, SqlDialect::Sqlite),
        ["SELECT `a;b`, [c;d]", "SELECT 'it''s; ok'"]
    );
}

#[test]
fn a_trigger_keeps_its_body() {
    let sql = "CREATE TEMP TRIGGER r AFTER INSERT ON t BEGIN UPDATE t SET a = CASE WHEN 1 THEN 2 END; DELETE FROM u; END; SELECT 1";
    let statements = split_statements(sql, SqlDialect::Sqlite);
    assert_eq!(statements.len(), 2, "{statements:?}");
    assert_eq!(statements[1], "SELECT 1");
}

#[test]
fn a_value_between_tokens_is_bound() {
    let pieces = [
        text_piece("SELECT * FROM t WHERE a = "),
        value_piece("x' OR 1=1 --"),
        text_piece(" AND b="),
        value_piece(2),
    ];
    let statement = bind_one(&pieces, SqlDialect::Sqlite);
    let sent = statement.text();
    assert_eq!(sent.text, "SELECT * FROM t WHERE a = ?1 AND b= 2");
    assert_eq!(sent.params, [json!("x' OR 1=1 --")]);
    assert_eq!(
        bind_one(&pieces, SqlDialect::Postgres).text().text,
        "SELECT * FROM t WHERE a = $1 AND b= 2"
    );
    let separate = bind_one(&pieces, SqlDialect::Postgres).text_with_separate_params();
    let separate = separate.unwrap();
    assert_eq!(separate.text, "SELECT * FROM t WHERE a = $1 AND b=$2");
    assert_eq!(separate.params, [json!("x' OR 1=1 --"), json!(2)]);
}

#[test]
fn a_value_in_quotes_is_escaped_once() {
    let quoted = |v: &str| {
        bind_one(
            &[text_piece("SELECT 'a "), value_piece(v), text_piece("'")],
            SqlDialect::Sqlite,
        )
        .text()
        .text
    };
    assert_eq!(quoted("it's"), "SELECT 'a it''s'");
    assert_eq!(quoted("it''s"), "SELECT 'a it''s'");
    assert_eq!(quoted("it'''s"), "SELECT 'a it''''''s'");
}

#[test]
fn an_identifier_is_quoted_and_a_name_is_only_extended_by_letters() {
    let pieces = [text_piece("SELECT * FROM "), Piece::Ident(json!("s.t\"x"))];
    assert_eq!(
        bind_one(&pieces, SqlDialect::Sqlite).text().text,
        "SELECT * FROM \"s\".\"t\"\"x\""
    );
    let part = [text_piece("SELECT * FROM log_"), value_piece(2024), text_piece("_v")];
    assert_eq!(
        bind_one(&part, SqlDialect::Sqlite).text().text,
        "SELECT * FROM log_2024_v"
    );
    let bad = [text_piece("SELECT * FROM log_"), value_piece("1; DROP TABLE t")];
    assert_eq!(
        bind_pieces(&bad, SqlDialect::Sqlite, &Params::None),
        Err(BindError::Ident("1; DROP TABLE t".to_owned()))
    );
}

#[test]
fn a_name_is_not_extended_by_what_a_database_treats_as_white_space() {
    for dialect in [SqlDialect::Sqlite, SqlDialect::Postgres, SqlDialect::Duckdb] {
        for blank in ['\u{a0}', '\u{2003}', '\u{3000}', '\u{200b}', '\u{feff}'] {
            let wide = format!("a{blank}JOIN{blank}secrets");
            let pieces = [text_piece("SELECT * FROM log_"), value_piece(wide.as_str())];
            let refused = bind_pieces(&pieces, dialect, &Params::None);
            assert_eq!(refused, Err(BindError::Ident(wide)));
            let apart = [
                text_piece(&format!("SELECT *{blank}FROM t WHERE a ={blank}")),
                value_piece("b"),
            ];
            // Postgres treats it as a letter, so a parameter would be part of a name.
            if dialect == SqlDialect::Postgres {
                let refused = bind_pieces(&apart, dialect, &Params::None);
                assert!(matches!(refused, Err(BindError::NotAllowed(_))), "{refused:?}");
            } else {
                assert_eq!(bind_one(&apart, dialect).text().params, [json!("b")]);
            }
        }
    }
    let letters = [text_piece("SELECT * FROM log_"), value_piece("é")];
    assert_eq!(
        bind_one(&letters, SqlDialect::Duckdb).text().text,
        "SELECT * FROM log_é"
    );
}

#[test]
fn a_value_after_a_backslash_is_rejected() {
    for dialect in [SqlDialect::Postgres, SqlDialect::Duckdb] {
        let with = |before: &str| {
            let pieces = [text_piece(before), value_piece("' OR 1=1 --"), text_piece("'")];
            bind_pieces(&pieces, dialect, &Params::None)
        };
        assert!(matches!(with(r"SELECT E'dir\"), Err(BindError::NotAllowed(_))));
        assert!(matches!(with(r"SELECT E'\\\"), Err(BindError::NotAllowed(_))));
        assert!(with(r"SELECT E'dir\\").is_ok());
        assert!(with(r"SELECT 'dir\").is_ok());
    }
}

#[test]
fn a_list_after_in_becomes_several_parameters() {
    let pieces = [
        text_piece("SELECT 1 WHERE a IN ("),
        value_piece(json!([1, "b"])),
        text_piece(")"),
    ];
    let statement = bind_one(&pieces, SqlDialect::Sqlite);
    assert_eq!(statement.text().text, "SELECT 1 WHERE a IN (1, ?1)");
    let none = [
        text_piece("SELECT 1 WHERE a in ( "),
        value_piece(json!([])),
        text_piece(")"),
    ];
    assert_eq!(
        bind_one(&none, SqlDialect::Sqlite).text().text,
        "SELECT 1 WHERE a in ( NULL)"
    );
}

#[test]
fn placeholders_of_the_playbook_are_bound_to_params() {
    let list = Params::List(vec![json!("a"), json!("b")]);
    let pieces = [
        text_piece("INSERT INTO t VALUES (?, "),
        value_piece(9),
        text_piece("); SELECT ?, '?', ?1"),
    ];
    let statements = bind_pieces(&pieces, SqlDialect::Sqlite, &list).unwrap();
    assert_eq!(statements[0].text().text, "INSERT INTO t VALUES (?1, 9)");
    assert_eq!(statements[0].text().params, [json!("a")]);
    assert_eq!(statements[1].text().text, "SELECT ?1, '?', ?2");
    assert_eq!(statements[1].text().params, [json!("b"), json!("a")]);
    let map = Params::Map(json!({"n": 1}).as_object().unwrap().clone());
    let named = bind_pieces(&[text_piece("SELECT :n::int, a::text")], SqlDialect::Postgres, &map).unwrap();
    assert_eq!(named[0].text().text, "SELECT $1::int, a::text");
    let twice = bind_pieces(&[text_piece("SELECT :n, :n")], SqlDialect::Postgres, &map).unwrap();
    assert_eq!(twice[0].text().text, "SELECT $1, $1");
    assert_eq!(
        bind_pieces(&[text_piece("SELECT :missing")], SqlDialect::Sqlite, &map),
        Err(BindError::Missing("missing".to_owned()))
    );
}

#[test]
fn dollar_quotes_get_a_tag_that_the_value_does_not_contain() {
    for dialect in [SqlDialect::Postgres, SqlDialect::Duckdb] {
        let quoted = |v: &str| {
            let pieces = [text_piece("SELECT $a$ "), value_piece(v), text_piece(" $a$, 1")];
            bind_one(&pieces, dialect).text().text
        };
        assert_eq!(quoted("costs $5"), "SELECT $a$ costs $5 $a$, 1");
        assert_eq!(quoted("x $a$; DROP $q1$"), "SELECT $q2$ x $a$; DROP $q1$ $q2$, 1");
    }
    let touching = [text_piece("SELECT $$"), value_piece("5$"), text_piece("$$")];
    assert_eq!(
        bind_one(&touching, SqlDialect::Postgres).text().text,
        "SELECT $q1$5$$q1$"
    );
}

#[test]
fn numbers_and_booleans_are_literals_of_their_types() {
    for dialect in DIALECTS {
        let sum = bind_template(
            "SELECT {{ a }} * {{ b }}::int, {{ c }}, {{ d }}-{{ a }}",
            json!({"a": 3, "b": -4, "c": true, "d": 1.5}),
            dialect,
        );
        assert_eq!(sum.text().text, "SELECT 3 * (-4)::int, TRUE, 1.5 - 3");
        assert!(sum.text().params.is_empty());
        let setting = bind_template("PRAGMA cache_size = {{ a }}", json!({"a": -4}), dialect);
        assert_eq!(setting.text().text, "PRAGMA cache_size = -4");
    }
    let large = bind_template("SELECT {{ a }}", json!({"a": u64::MAX}), SqlDialect::Sqlite);
    assert_eq!(large.text().params, [json!(u64::MAX)]);
}

#[test]
fn an_expression_that_occurs_twice_is_one_parameter() {
    let source = "SELECT {{ a }} || x, {{ b }} GROUP BY {{ a }} || x";
    let workload = json!({"a": "v", "b": "v"});
    let postgres = bind_template(source, workload.clone(), SqlDialect::Postgres);
    assert_eq!(postgres.text().text, "SELECT $1 || x, $2 GROUP BY $1 || x");
    assert_eq!(postgres.text().params, [json!("v"), json!("v")]);
    let sqlite = bind_template(source, workload, SqlDialect::Sqlite);
    assert_eq!(sqlite.text().text, "SELECT ?1 || x, ?2 GROUP BY ?1 || x");
    let rows = "SELECT {% for i in l %}{{ i }}, {% endfor %}1";
    let rows = bind_template(rows, json!({"l": ["a", "b", "a"]}), SqlDialect::Duckdb);
    assert_eq!(rows.text().text, "SELECT $1, $2, $1, 1");
}

#[test]
fn a_value_where_only_a_name_is_allowed_is_a_quoted_name() {
    for dialect in DIALECTS {
        let named = |source: &str| {
            let workload = json!({"t": "s.a\"b", "c": "x", "l": ["p", "q"], "n": 7});
            bind_template(source, workload, dialect).text().text
        };
        for (source, expected) in [
            ("SELECT {{ c }}.y FROM {{ t }}", r#"SELECT "x".y FROM "s"."a""b""#),
            ("SELECT 1 FROM a, {{ c }} WHERE 1", r#"SELECT 1 FROM a, "x" WHERE 1"#),
            ("DROP TABLE IF EXISTS p.{{ c }}", r#"DROP TABLE IF EXISTS p."x""#),
            (
                "INSERT INTO {{ c }} ({{ l }}) VALUES ({{ n }})",
                r#"INSERT INTO "x" ("p", "q") VALUES (7)"#,
            ),
            ("UPDATE {{ c }} SET {{ c }} = {{ n }}", r#"UPDATE "x" SET "x" = 7"#),
            ("SELECT 1 FROM {{ c }}.{{ n }}", r#"SELECT 1 FROM "x"."7""#),
        ] {
            assert_eq!(named(source), expected, "{source}");
        }
        let marked = "SELECT * FROM \"s\"{{ a | ident }}";
        for source in ["SELECT * FROM {{ a }}{{ b }}", marked] {
            let scope = Scope {
                workload: LazyValue::new(json!({"a": "x", "b": "y"})),
                ..Scope::default()
            };
            let pieces = Template::parse(source, Span::default()).unwrap();
            let pieces = pieces.rendered_pieces(&scope).unwrap().pieces;
            let refused = bind_pieces(&pieces, dialect, &Params::None);
            assert!(matches!(refused, Err(BindError::NotAllowed(_))), "{source}");
        }
    }
}

#[test]
fn a_statement_that_is_one_value_is_rejected() {
    for dialect in DIALECTS {
        let whole = [text_piece("SELECT 1; "), value_piece("DROP TABLE t"), text_piece(" ;")];
        let refused = bind_pieces(&whole, dialect, &Params::None);
        assert_eq!(refused, Err(BindError::TemplateStatement));
    }
}

#[test]
fn values_in_routine_bodies_are_inserted_by_context() {
    let body = |source: &str| {
        let workload = json!({"v": "it's $$ \\", "t": "a.b", "n": -3});
        bind_template(source, workload, SqlDialect::Postgres)
            .text_with_literals()
            .text
    };
    assert_eq!(
        body("DO $$ BEGIN IF '{{ v }}' = '' THEN DELETE FROM {{ t }} WHERE a = {{ n }}; END IF; END $$"),
        r#"DO $q1$ BEGIN IF 'it''s $$ \' = '' THEN DELETE FROM "a"."b" WHERE a =  (-3) ; END IF; END $q1$"#
    );
    assert_eq!(
        body(
            "CREATE FUNCTION f(a text DEFAULT '{{ t }}') RETURNS text LANGUAGE sql AS $f$ SELECT {{ v }} || $q${{ t }}$q$ $f$"
        ),
        r"CREATE FUNCTION f(a text DEFAULT 'a.b') RETURNS text LANGUAGE sql AS $f$ SELECT  E'it''s $$ \\'  || $q$a.b$q$ $f$"
    );
    assert_eq!(
        body("DO $$ BEGIN EXECUTE format('SELECT %L', '{{ t }}'); EXECUTE 'SELECT $1' USING {{ t }}; END $$"),
        "DO $$ BEGIN EXECUTE format('SELECT %L', 'a.b'); EXECUTE 'SELECT $1' USING  'a.b' ; END $$"
    );
}

#[test]
fn a_position_in_the_sent_text_maps_to_its_template_line() {
    let source = "-- first\nSELECT '{{ v }}',\n{% if n %}\n  {{ n }},\n{% endif %}\n  nosuch\nFROM t";
    let workload = json!({"v": "a\nb\nc", "n": 1});
    for dialect in DIALECTS {
        let mut statement = bind_template(source, workload.clone(), dialect);
        let sent = statement.text();
        let at = sent.text.find("nosuch").unwrap();
        assert_eq!(sent.line_of_byte(at), 6, "{}", sent.text);
        assert_eq!(sent.line_of_char(0), 1);
        statement.set_start_line(10);
        let sent = statement.text();
        assert_eq!(sent.line_of_char(sent.text.find("FROM").unwrap()), 16);
    }
}

#[test]
fn continued_quotes_keep_their_escapes() {
    let attack = r"\' ; DROP";
    for before in ["SELECT E'it''s ", "SELECT E'a'\n '", "SELECT E'a' -- b\n'"] {
        let pieces = [text_piece(before), value_piece(attack), text_piece("'")];
        let bound = bind_one(&pieces, SqlDialect::Postgres).text().text;
        assert!(bound.ends_with(r"\\'' ; DROP'"), "{bound}");
    }
    let plain = [text_piece("SELECT 'it''s "), value_piece(attack), text_piece("'")];
    assert!(
        bind_one(&plain, SqlDialect::Postgres)
            .text()
            .text
            .ends_with(r"\'' ; DROP'")
    );
}

#[test]
fn a_quote_in_a_comment_after_quotes_is_part_of_the_comment() {
    for dialect in DIALECTS {
        let before = "SELECT * FROM t WHERE a = 'x' -- it's\n AND b = ";
        let statement = bind_one(&[text_piece(before), value_piece("1 OR 1=1")], dialect);
        assert_eq!(statement.text().params, [json!("1 OR 1=1")]);
        let quoted = [
            text_piece(&format!("{before}'")),
            value_piece("' OR 1=1 --"),
            text_piece("'"),
        ];
        let sent = bind_one(&quoted, dialect).text();
        assert!(sent.text.ends_with("''' OR 1=1 --'"), "{}", sent.text);
    }
}

#[test]
fn a_comment_ends_where_its_database_ends_it() {
    let pieces = [
        text_piece("SELECT 1 -- it's\r, '"),
        value_piece("' OR 1=1 --"),
        text_piece("'"),
    ];
    for dialect in [SqlDialect::Postgres, SqlDialect::Duckdb] {
        let sent = bind_one(&pieces, dialect).text();
        assert!(sent.text.ends_with("''' OR 1=1 --'"), "{}", sent.text);
    }
    let sent = bind_one(&pieces, SqlDialect::Sqlite).text();
    assert!(sent.text.ends_with(", '' OR 1=1 --'"), "{}", sent.text);
}

#[test]
fn dollar_quotes_are_recognized_with_any_tag() {
    for dialect in [SqlDialect::Postgres, SqlDialect::Duckdb] {
        let tagged = [text_piece("SELECT $🦀$it's "), value_piece("$🦀$;"), text_piece("$🦀$")];
        let sent = bind_one(&tagged, dialect).text();
        assert_eq!(sent.text, "SELECT $q1$it's $🦀$;$q1$");
        for open in ["SELECT $t$", "SELECT $", "SELECT $$ '"] {
            let pieces = [text_piece(open), value_piece("$t$ $$; DROP TABLE t")];
            let refused = bind_pieces(&pieces, dialect, &Params::None);
            assert!(matches!(refused, Err(BindError::NotAllowed(_))), "{refused:?}");
        }
    }
    let named = [text_piece("SELECT 🦀$$, '"), value_piece("'"), text_piece("'")];
    let sent = bind_one(&named, SqlDialect::Postgres).text();
    assert!(sent.text.ends_with("''''"), "{}", sent.text);
    let body = [
        text_piece("DO $$ BEGIN PERFORM '"),
        value_piece("$$; DROP TABLE t; --"),
        text_piece("'"),
    ];
    let refused = bind_pieces(&body, SqlDialect::Postgres, &Params::None);
    assert!(matches!(refused, Err(BindError::NotAllowed(_))), "{refused:?}");
}

#[test]
fn values_are_rejected_in_ambiguous_contexts() {
    for before in [
        "SELECT U&'",
        "SELECT u&\"",
        "DO 'BEGIN ",
        "DO LANGUAGE plpython3u $$ print('",
        "DO $$ BEGIN EXECUTE 'SELECT ''",
        "DO $$ BEGIN EXECUTE 'SELECT ' || ",
        "DO $$ BEGIN EXECUTE format('SELECT ''",
        "CREATE OR REPLACE FUNCTION f() RETURNS int AS $f$ SELECT ",
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT ''",
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT'\n' ''",
    ] {
        let refused = bind_pieces(
            &[text_piece(before), value_piece("x")],
            SqlDialect::Postgres,
            &Params::None,
        );
        assert!(
            matches!(refused, Err(BindError::NotAllowed(_))),
            "{before}: {refused:?}"
        );
    }
    let numbers = [text_piece("SELECT $1, "), value_piece("x")];
    assert_eq!(
        bind_pieces(&numbers, SqlDialect::Postgres, &Params::None),
        Err(BindError::UnnumberedParam)
    );
}

#[test]
fn postgres_names_contain_dollars_and_routines_contain_semicolons() {
    assert_eq!(
        split_statements("SELECT a$$b; SELECT c$$d", SqlDialect::Postgres).len(),
        2
    );
    assert_eq!(split_statements("SELECT $é$;$é$, 1", SqlDialect::Postgres).len(), 1);
    let trigger = "CREATE TRIGGER t BEFORE INSERT ON x EXECUTE FUNCTION f(); SELECT 1";
    assert_eq!(split_statements(trigger, SqlDialect::Postgres).len(), 2);
    let routine =
        "CREATE OR REPLACE PROCEDURE p() BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END; SELECT 3";
    assert_eq!(split_statements(routine, SqlDialect::Postgres).len(), 2);
    assert_eq!(
        split_statements("BEGIN; SELECT 1; END; SELECT 2", SqlDialect::Postgres).len(),
        4
    );
}

#[test]
fn a_statement_has_its_verb_and_start_line() {
    let sql = "-- one\nSELECT 1;\n\nWITH a AS (SELECT 1)\nUPDATE t SET x = 1";
    let statements = bind_pieces(&[text_piece(sql)], SqlDialect::Postgres, &Params::None).unwrap();
    let parsed: Vec<(&str, &str, usize)> = statements
        .iter()
        .map(|s| (s.first_word(), s.verb.as_str(), s.line))
        .collect();
    assert_eq!(parsed, [("SELECT", "SELECT", 1), ("WITH", "UPDATE", 4)]);
}

#[test]
fn literals_do_not_depend_on_the_backslash_setting() {
    let pieces = [
        text_piece("  COMMENT ON TABLE t IS "),
        value_piece(r"it's \ so"),
        text_piece(" -"),
        value_piece(-1),
        text_piece(", "),
        value_piece(Value::Null),
    ];
    let statement = bind_one(&pieces, SqlDialect::Postgres);
    assert_eq!(
        statement.text_with_literals().text,
        r"COMMENT ON TABLE t IS E'it''s \\ so' - -1, NULL"
    );
}

/// Result of a statement in SQLite.
fn sqlite_answer(statement: &SqlStatement) -> String {
    let db = rusqlite::Connection::open_in_memory().unwrap();
    let sent = statement.text();
    let params = sent.params.iter().map(|v| v.as_str().unwrap().to_owned());
    let params = rusqlite::params_from_iter(params.collect::<Vec<_>>());
    db.query_row(&sent.text, params, |row| row.get(0)).unwrap()
}

/// SQLite bytecode of a statement, without its literals.
fn sqlite_program(db: &rusqlite::Connection, sql: &str) -> Vec<(String, i64)> {
    let mut listing = db.prepare(&format!("EXPLAIN {sql}")).unwrap();
    let rows = listing.query_map([], |row| {
        let opcode: String = row.get("opcode")?;
        // The instruction that loads a number depends on its size.
        let opcode = match opcode.as_str() {
            "Integer" | "Int64" | "Real" => "Number".to_owned(),
            _ => opcode,
        };
        let register = row.get("p2")?;
        Ok((opcode, register))
    });
    rows.unwrap().map(Result::unwrap).collect()
}

proptest! {
    #[test]
    fn every_value_is_unchanged_in_every_context(v in "[^\u{0}]{0,24}|['\";$-]{0,12}") {
        for (before, after) in [("SELECT ", ""), ("SELECT /* it's */ ", " -- '"), ("SELECT ", "\n;\n")] {
            let statement = bind_one(&[text_piece(before), value_piece(v.clone()), text_piece(after)], SqlDialect::Sqlite);
            prop_assert_eq!(sqlite_answer(&statement), v.clone());
        }
        // Text whose quotes are all doubled counts as escaped.
        let quoted = bind_one(&[text_piece("SELECT '"), value_piece(v.clone()), text_piece("'")], SqlDialect::Sqlite);
        let parsed = sqlite_answer(&quoted);
        prop_assert!(parsed == v || parsed == v.replace("''", "'"), "{parsed:?} {v:?}");
        if !v.is_empty() {
            let named = bind_one(&[text_piece("SELECT 1 AS \""), value_piece(v.clone()), text_piece("\"")], SqlDialect::Sqlite);
            let db = rusqlite::Connection::open_in_memory().unwrap();
            let prepared = db.prepare(&named.text().text).unwrap();
            prop_assert_eq!(prepared.column_name(0).unwrap(), v.as_str());
        }
        let comment = bind_one(&[text_piece("SELECT 'k' -- "), value_piece(v.clone()), text_piece("\n")], SqlDialect::Sqlite);
        prop_assert_eq!(sqlite_answer(&comment), "k");
        let block = bind_one(&[text_piece("SELECT /* "), value_piece(v.clone()), text_piece(" */ 'k'")], SqlDialect::Sqlite);
        prop_assert_eq!(sqlite_answer(&block), "k");
    }

    #[test]
    fn every_name_and_number_is_unchanged(v in "[^\u{0}.]{1,24}|['\"`;\\[\\]-]{1,12}", n in any::<i64>(), r in any::<f64>()) {
        let db = rusqlite::Connection::open_in_memory().unwrap();
        let named = bind_one(&[text_piece("SELECT 1 AS "), value_piece(v.clone()), text_piece(" -- '")], SqlDialect::Sqlite);
        let prepared = db.prepare(&named.text().text).unwrap();
        prop_assert_eq!(prepared.column_count(), 1);
        prop_assert_eq!(prepared.column_name(0).unwrap(), v.as_str());
        let numbers = [text_piece("SELECT 1+"), value_piece(n), text_piece("*"), value_piece(r), text_piece("+0, 1")];
        let sent = bind_one(&numbers, SqlDialect::Sqlite).text();
        let plain = [text_piece("SELECT 1+"), value_piece(7), text_piece("*"), value_piece(7.5), text_piece("+0, 1")];
        let plain = bind_one(&plain, SqlDialect::Sqlite).text();
        if r.is_finite() {
            prop_assert_eq!(sqlite_program(&db, &sent.text), sqlite_program(&db, &plain.text), "{}", sent.text);
        }
    }

    #[test]
    fn splitting_loses_only_semicolons_and_white_space(sql in "[a-z'\"\\-/*;\n ]{0,60}") {
        for dialect in [SqlDialect::Sqlite, SqlDialect::Postgres] {
            let parts = split_statements(&sql, dialect);
            let strip = |s: &str| s.replace([';', ' ', '\n'], "");
            let joined: String = parts.iter().map(|p| strip(p)).collect();
            // Only separate comments are dropped.
            prop_assert!(joined.len() <= strip(&sql).len());
            for part in &parts {
                prop_assert!(sql.contains(part.as_str()));
            }
        }
    }
}
