//! Attacks: values that try to become SQL, in every lexical context of a statement, parsed by `DuckDB` itself.
//!
//! The syntax tree of the statement with the attack must be that of the statement with a harmless value, apart from
//! that text, and the bound value must be the attack exactly. Playbook text that is invalid with a harmless value must
//! not become a statement by an attack.

use std::path::PathBuf;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use tools::corpus::{all_cases, check, pieces};
use tools::sql::{BindError, CommandText, Params, SqlDialect, SqlStatement, bind_command};

use super::ffi::{DuckdbConnection, DuckdbLibrary};
use super::guard::query_rows;

/// The harmless value.
const HARMLESS: &str = "qharmlessq";

const ATTACKS: &[&str] = &[
    "'; DROP TABLE canary; --",
    "\"; DROP TABLE canary; --",
    "$$; DROP TABLE canary; --",
    "$t$; DROP TABLE canary; --",
    "*/; DROP TABLE canary; /*",
    "\n; DROP TABLE canary; --",
    "\r; DROP TABLE canary; --",
    "; DROP TABLE canary",
    "' OR 1=1 --",
    "' UNION SELECT secret FROM canary --",
    "' || (SELECT secret FROM canary) || '",
    "') FROM canary --",
    "\\'; DROP TABLE canary; --",
    "\\",
    "\\\\",
    "\\\\'",
    "'\\",
    "'",
    "''",
    "'''",
    "''''",
    "\"",
    "\"\"",
    "$",
    "$$",
    "$$$",
    "$t$",
    "$t",
    "$q1$",
    "t$",
    "t$ $t$",
    "$1",
    "$a",
    "?",
    ":a",
    "--",
    "-",
    "/*",
    "*/",
    "/",
    "*",
    "/* /* */",
    "`",
    "``; DROP TABLE canary",
    "[",
    "]",
    "{",
    "}",
    "x: 1}",
    "1_000",
    "x -> x",
    "lambda x: x",
    "E'\\''",
    "U&'\\0027'",
    "\u{a0}",
    "\u{a0}x\u{3000}",
    "'\u{a0}",
    "\u{feff}' \u{200b}",
    "\u{2028}",
    "\u{2019}",
    "\u{ff07}",
    "\u{85}",
    "é 漢字 🦀",
    "\n",
    "\r",
    "\r\n",
    "\t",
    " ",
    "null",
    "0",
    "a.b",
    "data.csv",
];

/// Contexts of a value that is a literal or inside one.
const LITERALS: &[&str] = &[
    "SELECT @",
    "SELECT @ AS a, @ AS b",
    "SELECT @::VARCHAR || 'x', 1",
    "SELECT 1 WHERE @ = 'x' AND 1 = 1",
    "FROM range(3) SELECT @",
    "SELECT [@, 'x'], {'a': @}, MAP {'k': @}",
    "SELECT * FROM range(3) LIMIT @",
    "SELECT list_transform([1], lambda x: @)",
    "SELECT /* it's */ @ -- '",
    "WITH c AS (SELECT @ AS v) SELECT v FROM c",
    "SELECT '@'",
    "SELECT 'a@b@c'",
    "SELECT 'it''s @'",
    "SELECT '@''s'",
    "SELECT 'dir\\@'",
    "SELECT 'a'\n'@'",
    "SELECT 'a' -- x\n  '@'",
    "SELECT 'a' -- x\r  '@'",
    "SELECT '$$@$$', '/*@*/', '--@'",
    "SELECT DATE '@', N'@'",
    "SELECT ['@', 'x'], {'a': '@'}, MAP {'k': '@'}",
    "SELECT {'@x': 1}",
    "SELECT list_transform(['x'], lambda x: x || '@')",
    "SELECT a[1:2], '@' FROM (SELECT [1] AS a)",
    "SELECT 1_000, '@'",
    "SELECT \"a'b\", '@' FROM t",
    "SELECT /* it's */ '@' -- it's\n",
    "SELECT /* \" $$ -- */ '@'",
    "SELECT /* /* ' */ \" */ '@'",
    "SELECT -- it's\n '@'",
    "SELECT -- it's\r '@'",
    "SELECT '@', /* @ */ '@' -- @",
    "SELECT * FROM 'x@'",
    "FROM 'x@'",
    "SELECT * FROM read_csv('@', delim = '@')",
    "SELECT E'@'",
    "SELECT e'it''s @'",
    "SELECT E'it\\'s @'",
    "SELECT E'\\\\@', 1",
    "SELECT E'\\n@\\t'",
    "SELECT \u{a0}E'@\\''",
    "SELECT $$@$$",
    "SELECT $$$@$$, '@'",
    "SELECT $t$it's @$t$",
    "SELECT $t$@$@t$, '@'$t$",
    "SELECT $é$@$é$",
    "SELECT $🦀$it's @$🦀$",
    "SELECT $q1$@$q1$, $$@$$",
    "SELECT $$'$$, '@'",
    "SELECT '$$', '@$$'",
];

/// Contexts of a value that is a name or inside one.
const NAMES: &[&str] = &[
    "SELECT 1 AS \"@\"",
    "SELECT 1 AS \"a@b\", 2",
    "SELECT \"@\".\"@\" FROM t",
    "SELECT * FROM \"@\" WHERE 1 = 1",
    "SELECT 1 AS @",
    "SELECT * FROM @",
    "FROM @",
    "FROM @ SELECT 1",
    "SELECT * FROM t, @ WHERE true",
    "SELECT * FROM t JOIN @ ON true",
    "SELECT @.x FROM t",
    "SELECT * FROM s.@",
    "SELECT '@' AS @ FROM @ /* @ */",
    "SELECT log_@ FROM t",
];

/// Contexts of a value in a comment.
const COMMENTS: &[&str] = &[
    "SELECT 1 -- @\n, 2",
    "SELECT 1 -- @\r, 2",
    "SELECT 1 -- @",
    "SELECT /* @ */ 1",
    "SELECT /* /* @ */ @ */ 1",
    "SELECT /*@*/ 1 /*@*/",
];

/// Contexts that `DuckDB` cannot parse if the value contains a quote.
const UNREADABLE: &[&str] = &["SELECT x'@'", "SELECT b'@' -- '", "SELECT \"a\" x'@'"];

/// Result of parsing the statements of a command.
#[derive(Debug, Clone, PartialEq)]
enum Parsed {
    /// Their trees.
    Trees(Vec<Value>),
    /// One of them is invalid.
    Invalid,
    /// One of them is not a query.
    Other,
}

/// Statements to send, with their bound values.
type Texts = Result<Vec<(String, Vec<Value>)>, BindError>;

/// Inserts a value into a context.
type Placing = fn(&str, &Value) -> Texts;

/// Statements of a context with a value.
fn placed(context: &str, value: &Value) -> Texts {
    let command = CommandText {
        pieces: &pieces(context, value),
        origins: &[],
    };
    let statements = bind_command(command, SqlDialect::Duckdb, &Params::None)?;
    let sent = statements.iter().map(SqlStatement::text);
    Ok(sent.map(|sent| (sent.text, sent.params)).collect())
}

/// Inserts a value as SQL text, which the tests must detect.
#[expect(
    clippy::unnecessary_wraps,
    reason = "it takes the place of the placing that can refuse"
)]
fn placed_as_text(context: &str, value: &Value) -> Texts {
    let text = context.replace('@', value.as_str().unwrap());
    Ok(vec![(text, Vec::new())])
}

/// Connects to an in-memory database.
fn connect() -> DuckdbConnection {
    let test = std::env::current_exe().unwrap();
    let find = |folder: &std::path::Path| -> Option<PathBuf> {
        let folder = folder.join("test-env/duckdb");
        let files = ["libduckdb.so", "libduckdb.dylib"].map(|name| folder.join(name));
        files.into_iter().find(|file| file.is_file())
    };
    let library = test.ancestors().find_map(find);
    let library = library.expect("`cargo xtask test` fetches libduckdb");
    let engine = DuckdbLibrary::load(&library).unwrap();
    let database = std::sync::Arc::new(engine.open(None, &[]).unwrap());
    database.connect().unwrap()
}

/// A syntax tree without text positions.
fn without_locations(tree: &mut Value) {
    match tree {
        Value::Object(map) => {
            map.retain(|key, _| !key.starts_with("query_location"));
            map.values_mut().for_each(without_locations);
        }
        Value::Array(items) => items.iter_mut().for_each(without_locations),
        _ => {}
    }
}

/// Whether a tree equals that of the harmless value, with one of these texts instead.
fn fits(result: &Value, plain: &Value, texts: &[String]) -> bool {
    match (result, plain) {
        (Value::String(result), Value::String(plain)) => {
            texts.iter().any(|text| *result == plain.replace(HARMLESS, text))
        }
        (Value::Array(result), Value::Array(plain)) => {
            let mut pairs = result.iter().zip(plain);
            result.len() == plain.len() && pairs.all(|(result, plain)| fits(result, plain, texts))
        }
        (Value::Object(result), Value::Object(plain)) => {
            let fits_at = |(key, plain): (&String, &Value)| {
                // Function names become lowercase.
                let small = texts.iter().map(|text| text.to_ascii_lowercase());
                let is_function = key == "function_name";
                let result = result.get(key);
                result.is_some_and(|result| {
                    fits(result, plain, texts) || (is_function && fits(result, plain, &small.collect::<Vec<_>>()))
                })
            };
            result.len() == plain.len() && plain.iter().all(fits_at)
        }
        _ => result == plain,
    }
}

fn parse(connection: &DuckdbConnection, texts: &[(String, Vec<Value>)]) -> Parsed {
    let mut trees = Vec::new();
    for (text, _) in texts {
        let sql = "SELECT json_serialize_sql($1::VARCHAR)::VARCHAR";
        let mut rows = connection.query(sql, &[json!(text)]).unwrap();
        let chunk = rows.next_chunk().unwrap().expect("there is one row");
        let row = chunk.rows().next().unwrap();
        let mut tree: Value = serde_json::from_str(row[0].as_str().unwrap()).unwrap();
        match tree["error_type"].as_str() {
            None => {}
            Some("parser") => return Parsed::Invalid,
            Some(_) => return Parsed::Other,
        }
        without_locations(&mut tree);
        trees.push(tree);
    }
    Parsed::Trees(trees)
}

/// Problem of a context with an attack. The value may be rejected; otherwise it must be unchanged.
fn problem(connection: &DuckdbConnection, placing: Placing, context: &str, attack: &str) -> Option<String> {
    let Ok(plain) = placing(context, &json!(HARMLESS)) else {
        return None;
    };
    let Ok(sent) = placing(context, &json!(attack)) else {
        return None;
    };
    let bound = |texts: &[(String, Vec<Value>)]| -> Value {
        let params = texts.iter().flat_map(|(_, params)| params.clone());
        params.collect()
    };
    if !fits(&bound(&sent), &bound(&plain), &[attack.to_owned()]) {
        return Some(format!("{sent:?} binds something else"));
    }
    // Text whose quotes are all doubled counts as escaped.
    let texts = [attack.to_owned(), attack.replace("''", "'")];
    match (parse(connection, &sent), parse(connection, &plain)) {
        (Parsed::Trees(result), Parsed::Trees(plain)) => {
            let is_same = fits(&result.into(), &plain.into(), &texts);
            (!is_same).then(|| format!("{sent:?} has another tree"))
        }
        (Parsed::Invalid, Parsed::Invalid) | (Parsed::Other, Parsed::Other) => None,
        (result, plain) => Some(format!("{sent:?} is {result:?} instead of {plain:?}")),
    }
}

/// Contexts in which no value is rejected.
fn open_contexts() -> Vec<&'static str> {
    [LITERALS, COMMENTS].concat()
}

#[test]
fn no_value_becomes_sql_in_any_context() {
    let connection = connect();
    let contexts = open_contexts();
    for context in &contexts {
        assert!(placed(context, &json!("x")).is_ok(), "{context}");
        let plain = placed(context, &json!(HARMLESS)).unwrap();
        let parsed = parse(&connection, &plain);
        assert!(matches!(parsed, Parsed::Trees(_)), "{context}: {plain:?}");
    }
    check(&all_cases(&contexts, ATTACKS), |context, attack| {
        if let Err(error) = placed(context, &json!(attack)) {
            return Some(format!("{error}"));
        }
        problem(&connection, placed, context, attack)
    });
}

#[test]
fn no_name_becomes_more_than_a_name() {
    let connection = connect();
    // A dot splits a name, which changes the tree.
    let attacks: Vec<&str> = ATTACKS.iter().filter(|attack| !attack.contains('.')).copied().collect();
    check(&all_cases(NAMES, &attacks), |context, attack| {
        problem(&connection, placed, context, attack)
    });
    for name in ["a", "a.b", "a.b.c"] {
        let texts = placed("SELECT * FROM @", &json!(name)).unwrap();
        assert_eq!(texts[0].0, format!("SELECT * FROM \"{}\"", name.replace('.', "\".\"")));
    }
}

#[test]
fn an_unparsable_value_never_becomes_a_statement() {
    let connection = connect();
    check(&all_cases(UNREADABLE, ATTACKS), |context, attack| {
        let sent = placed(context, &json!(attack)).ok()?;
        match parse(&connection, &sent) {
            Parsed::Invalid => None,
            _ => problem(&connection, placed, context, attack),
        }
    });
}

#[test]
fn any_value_changes_only_its_text_in_the_tree() {
    let connection = connect();
    let contexts = [LITERALS, COMMENTS, NAMES].concat();
    let mut runner = runner(400);
    let values = "[^\u{0}.]{0,16}|['\"\\\\;$/*`qt1 \u{a0}\n\r-]{0,12}|\\$t\\$[^\u{0}.]{0,4}\\$[a-z]{0,2}";
    runner
        .run(&(values, 0..contexts.len()), |(value, at)| {
            for step in 0..8 {
                let context = contexts[(at + step) % contexts.len()];
                if value.is_empty() && NAMES.contains(&context) {
                    continue;
                }
                let result = problem(&connection, placed, context, &value);
                prop_assert_eq!(result, None, "{:?} with {:?}", context, value);
            }
            Ok(())
        })
        .expect("no value changes the tree");
}

/// Parts of playbook text, valid and invalid.
const PARTS: &[&str] = &[
    "@",
    "'@'",
    "E'@'",
    "\"@\"",
    "$$@$$",
    "$t$@$t$",
    "/*@*/",
    "--@\n",
    "--@\r",
    "'",
    "''",
    "\"",
    "$",
    "$$",
    "$t$",
    "$1",
    "`",
    "\\",
    "\\'",
    "E'",
    "e'",
    "U&'",
    "a",
    "e",
    "t",
    "a$",
    "1",
    "1.5",
    "é",
    "🦀",
    "\u{a0}",
    ".",
    ",",
    ", ",
    " ",
    " ",
    "\n",
    "\r",
    "/*",
    "*/",
    "--",
    "-",
    "/",
    "*",
    "||",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ":",
    "::",
    ";",
    " SELECT ",
    " FROM ",
    " AS ",
    "query(",
    "'it''s'",
    "E'it\\'s'",
    "/* it's */",
    "-- it's\n",
    "E'a'\n'",
];

#[test]
fn a_value_stays_a_value_in_any_playbook_text() {
    let connection = connect();
    let mut runner = runner(6000);
    let part = prop::sample::select(PARTS);
    let texts = prop::collection::vec(part, 1..10);
    let values = prop::sample::select(ATTACKS);
    runner
        .run(&(texts, values), |(parts, value)| {
            let context = format!("SELECT {}", parts.concat());
            // A dot splits a name, and a word may be a type or continue a number, which changes the tree.
            let is_word = value.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if !value.contains('.') && !is_word {
                let result = problem(&connection, placed, &context, value);
                prop_assert_eq!(result, None, "{:?} with {:?}", context, value);
            }
            Ok(())
        })
        .expect("no value changes the tree");
}

#[test]
fn values_inserted_as_sql_are_detected() {
    let connection = connect();
    for context in [
        "SELECT '@'",
        "SELECT E'@'",
        "SELECT $$@$$",
        "SELECT $t$@$t$",
        "SELECT 1 AS \"@\"",
        "SELECT * FROM \"@\" WHERE 1 = 1",
        "SELECT /* @ */ 1",
        "SELECT 1 -- @\n, 2",
        "SELECT 1 -- @\r, 2",
    ] {
        let caught = |attack: &&str| problem(&connection, placed_as_text, context, attack).is_some();
        assert!(ATTACKS.iter().any(caught), "{context}");
    }
}

#[test]
fn numbers_are_unchanged() {
    let connection = connect();
    let mut runner = runner(200);
    let back = |context: &str, value: &Value| -> Value {
        let sent = placed(context, value).unwrap().remove(0);
        assert!(sent.1.is_empty(), "{sent:?}");
        query_rows(&connection, &sent.0).unwrap()[0][0].clone()
    };
    runner
        .run(&(any::<i64>(), any::<u64>(), -1e300..1e300), |(n, u, r)| {
            for context in ["SELECT @", "SELECT 0+@", "SELECT -(-@)", "FROM range(1) SELECT 0-(-@)"] {
                prop_assert_eq!(back(context, &json!(n)), json!(n), "{}", context);
            }
            prop_assert_eq!(back("SELECT @", &json!(u)), json!(u));
            prop_assert_eq!(
                back("FROM range(1) SELECT @::BIGINT", &json!(i64::MIN)),
                json!(i64::MIN)
            );
            let result = back("SELECT @::DOUBLE", &json!(r));
            prop_assert_eq!(result.as_f64(), Some(r));
            Ok(())
        })
        .expect("every number is itself");
}

#[test]
fn values_in_sql_that_a_function_runs_are_rejected() {
    for context in [
        "FROM query('SELECT ''@''')",
        "FROM query('SELECT ' || @)",
        "FROM query(@)",
        "SELECT * FROM postgres_query('pg', 'SELECT @')",
        "SELECT * FROM query('SELECT ' || upper('@'))",
    ] {
        let refused = placed(context, &json!("x"));
        assert!(matches!(refused, Err(BindError::NotAllowed(_))), "{context}");
        let negative = placed(context, &json!(-1));
        assert!(matches!(negative, Err(BindError::NotAllowed(_))), "{context}");
        assert!(placed(context, &json!(1)).is_ok(), "{context}");
    }
    for context in [
        "SELECT * FROM postgres_query('@', 'SELECT 1')",
        "SELECT query, '@' FROM t",
        "SELECT * FROM query('SELECT 1') WHERE a = '@'",
        "SELECT * FROM query(/* @ */ 'SELECT 1')",
    ] {
        assert!(placed(context, &json!("x")).is_ok(), "{context}");
    }
}

#[test]
fn values_are_rejected_where_versions_differ() {
    for context in [
        "SELECT `a`, '@'",
        "SELECT `it's`, @",
        "SELECT E'a'\n'@'",
        "SELECT E'a' -- x\n'b', '@'",
        "SELECT ` FROM @",
        "SELECT $@",
        "SELECT a$$b, '@'",
        "SELECT 🦀$$b, '@'",
        "SELECT $$x$$a$$, '@'",
        "SELECT 🦀@",
        "SELECT 1a$$@$$",
        "SELECT 1e5$$@$$",
        "SELECT $1a$$, '@'",
    ] {
        let refused = placed(context, &json!("x"));
        assert!(matches!(refused, Err(BindError::NotAllowed(_))), "{context}");
    }
    for context in ["SELECT '`', '@'", "SELECT E'it''s', '@'", "SELECT '@', `a`"] {
        assert!(placed(context, &json!("x")).is_ok(), "{context}");
    }
}

fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    })
}
