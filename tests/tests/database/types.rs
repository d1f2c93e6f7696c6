//! Every common type comes back as JSON, and goes in again as it came.

use serde_json::{Value, json};

use crate::fixture::{DatabaseFixture, first_row, with_params};

/// A type, a literal of it, and its JSON.
fn type_table() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        ("bool", "true", json!(true)),
        ("int2", "-32768", json!(-32768)),
        ("int4", "2147483647", json!(2_147_483_647)),
        ("int8", "-9223372036854775808", json!(i64::MIN)),
        ("oid", "4294967295", json!(4_294_967_295_u32)),
        ("float4", "0.1", json!(0.1)),
        ("float8", "1.7976931348623157e308", json!(f64::MAX)),
        ("float8", "NaN", json!("NaN")),
        ("float8", "-Infinity", json!("-Infinity")),
        ("numeric", "12", json!(12)),
        ("numeric(10,2)", "12.50", json!(12.5)),
        ("numeric", "-0.000001", json!(-0.000_001)),
        (
            "numeric",
            "123456789012345678901234567890.123456789",
            json!("123456789012345678901234567890.123456789"),
        ),
        ("numeric", "NaN", json!("NaN")),
        ("numeric", "Infinity", json!("Infinity")),
        ("text", "it''s \"ü\" \\ 🦀", json!("it's \"ü\" \\ 🦀")),
        ("varchar(5)", "abc", json!("abc")),
        ("char(3)", "a", json!("a  ")),
        ("name", "n", json!("n")),
        ("bytea", "\\x00ff10", json!("\\x00ff10")),
        (
            "uuid",
            "0188a3f0-7e8b-7000-8000-0123456789ab",
            json!("0188a3f0-7e8b-7000-8000-0123456789ab"),
        ),
        ("date", "2024-02-29", json!("2024-02-29")),
        ("date", "0044-03-15 BC", json!("0044-03-15 BC")),
        ("date", "infinity", json!("infinity")),
        ("time", "23:59:59.000001", json!("23:59:59.000001")),
        ("timetz", "12:00:00+05:30", json!("12:00:00+05:30")),
        ("timestamp", "1969-12-31 23:59:59.5", json!("1969-12-31T23:59:59.5")),
        (
            "timestamptz",
            "2024-07-01 12:00:00+02",
            json!("2024-07-01T10:00:00+00:00"),
        ),
        ("timestamptz", "-infinity", json!("-infinity")),
        (
            "interval",
            "1 year 2 mons -3 days +04:05:06.7",
            json!("1 year 2 mons -3 days +04:05:06.7"),
        ),
        ("json", "{\"b\":1,\"a\":[null,1.5]}", json!({"b": 1, "a": [null, 1.5]})),
        ("jsonb", "[{\"k\": \"v\"}, true]", json!([{"k": "v"}, true])),
        ("int4[]", "{1,NULL,3}", json!([1, null, 3])),
        ("int4[]", "{}", json!([])),
        ("int4[]", "{{1,2},{3,4}}", json!([[1, 2], [3, 4]])),
        (
            "text[]",
            "{a,\"b,c\",\"d\\\"e\",\"NULL\",\"\"}",
            json!(["a", "b,c", "d\"e", "NULL", ""]),
        ),
        ("jsonb[]", "{\"[1]\",\"{\\\"a\\\": 2}\"}", json!([[1], {"a": 2}])),
        (
            "timestamptz[]",
            "{2024-01-01 00:00:00+00}",
            json!(["2024-01-01T00:00:00+00:00"]),
        ),
        ("inet", "192.168.1.5/24", json!("192.168.1.5/24")),
        ("inet", "::1", json!("::1")),
        ("cidr", "10.0.0.0/8", json!("10.0.0.0/8")),
        ("macaddr", "08:00:2b:01:02:03", json!("08:00:2b:01:02:03")),
        ("bit(5)", "10110", json!("10110")),
        ("varbit", "1", json!("1")),
        ("int4range", "[1,5)", json!("[1,5)")),
        (
            "tstzrange",
            "[\"2024-01-01 00:00:00+00\",)",
            json!("[\"2024-01-01 00:00:00+00\",)"),
        ),
        ("numrange", "empty", json!("empty")),
        ("int4multirange", "{[1,3),[5,7)}", json!("{[1,3),[5,7)}")),
        ("point", "(1.5,-2)", json!("(1.5,-2)")),
        ("box", "(3,4),(1,2)", json!("(3,4),(1,2)")),
        ("path", "[(0,0),(1,1)]", json!("[(0,0),(1,1)]")),
        ("polygon", "((0,0),(1,1),(2,0))", json!("((0,0),(1,1),(2,0))")),
        ("circle", "<(1,2),3>", json!("<(1,2),3>")),
        ("lseg", "[(0,0),(1,1)]", json!("[(0,0),(1,1)]")),
        ("line", "{1,2,3}", json!("{1,2,3}")),
        ("tsvector", "'cat':3 'dog':1A,2", json!("'cat':3 'dog':1A,2")),
        ("pg_lsn", "16/B374D848", json!("16/B374D848")),
        ("xml", "<a>b</a>", json!("<a>b</a>")),
        ("money", "12.34", json!("12.34")),
        ("mood", "happy", json!("happy")),
        ("mood[]", "{sad,happy}", json!(["sad", "happy"])),
        ("positive", "5", json!(5)),
        ("pair", "(1,\"a,b\")", json!("(1,\"a,b\")")),
        ("pair[]", "{\"(1,x)\",\"(2,)\"}", json!(["(1,x)", "(2,)"])),
    ]
}

const OWN_TYPES: &str = "CREATE TYPE mood AS ENUM ('sad', 'happy'); CREATE DOMAIN positive AS int CHECK (VALUE > 0); \
    CREATE TYPE pair AS (n int, t text);";

#[tokio::test]
async fn every_type_round_trips_as_json() {
    let fixture = DatabaseFixture::new();
    fixture.query(OWN_TYPES).await;
    for (kind, literal, expected) in type_table() {
        let literal = literal.replace("''", "'").replace('\'', "''");
        let read = fixture.query_value(&format!("SELECT '{literal}'::{kind} AS v")).await;
        assert_eq!(read, expected, "{kind} {literal}");
        // JSON text stays text in JSON columns, so the test compares what the server stored.
        let call = fixture.sql_call(&format!(
            "SELECT $1::{kind}::text IS NOT DISTINCT FROM '{literal}'::{kind}::text AS same"
        ));
        let same = fixture.call_result(with_params(call, json!([read]))).await;
        assert_eq!(first_row(&same), true, "{kind} {literal} as {read}");
    }
}

#[tokio::test]
async fn null_is_null_in_every_type() {
    let fixture = DatabaseFixture::new();
    fixture.query(OWN_TYPES).await;
    for (kind, _, _) in type_table() {
        let call = fixture.sql_call(&format!("SELECT $1::{kind} AS v"));
        assert_eq!(
            first_row(&fixture.call_result(with_params(call, json!([null]))).await),
            Value::Null,
            "{kind}"
        );
    }
}

#[tokio::test]
async fn maps_and_lists_go_into_rows_of_a_type() {
    let fixture = DatabaseFixture::new();
    fixture.query(OWN_TYPES).await;
    let call = fixture.sql_call("SELECT ($1::pair).t || ($2::pair).n AS v, ROW(1, 'a b', NULL, true) AS r");
    let call = with_params(call, json!([{"t": "x \"y\"", "n": 1}, [2, "z"]]));
    let result = fixture.call_result(call).await;
    assert_eq!(result["rows"][0], json!({"v": "x \"y\"2", "r": "(1,\"a b\",,t)"}));
}

#[tokio::test]
async fn columns_with_the_same_name_get_distinct_keys() {
    let fixture = DatabaseFixture::new();
    let result = fixture.query("SELECT 1 AS a, 2 AS a, 3, 4").await;
    assert_eq!(
        result["rows"][0],
        json!({"a": 1, "a_2": 2, "?column?": 3, "?column?_2": 4})
    );
}

#[tokio::test]
async fn json_text_is_json_and_a_text_that_is_none_is_refused_with_the_remedy() {
    let fixture = DatabaseFixture::new();
    let call = |value: Value| with_params(fixture.sql_call("SELECT $1::jsonb AS v"), json!([value]));
    assert_eq!(
        first_row(&fixture.call_result(call(json!("{\"a\": 1}"))).await),
        json!({"a": 1})
    );
    let refused = crate::fixture::failure_error(&fixture.run_call(call(json!("plain"))).await);
    assert_eq!(refused.code, "PG_22P02");
    assert!(refused.message.contains("cast"), "{refused:?}");
}
