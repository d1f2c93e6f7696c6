//! What a command gives: rows, counts, one entry for each statement; and how its values are bound.

use language::template::Piece;
use serde_json::json;

use crate::fixture::{DatabaseFixture, failure_error, first_row, with_params};

const TABLE: &str = "CREATE TABLE item (id int PRIMARY KEY, name text, data jsonb, tags text[]);";

#[tokio::test]
async fn each_statement_has_an_entry_and_the_last_with_rows_is_the_result() {
    let fixture = DatabaseFixture::new();
    let result = fixture
        .query(&format!(
            "{TABLE} INSERT INTO item VALUES (1, 'a'), (2, 'b') RETURNING id; -- the last; it has rows\n\
             UPDATE item SET name = 'c;' WHERE id = 2;"
        ))
        .await;
    assert_eq!(result["columns"], json!(["id"]));
    assert_eq!(result["rows"], json!([{"id": 1}, {"id": 2}]));
    assert_eq!(result["row_count"], 2);
    assert_eq!(result["affected_rows"], 3);
    assert_eq!(result["command_0"]["affected_rows"], 0);
    assert_eq!(result["command_1"]["rows"], result["rows"]);
    assert_eq!(result["command_2"]["affected_rows"], 1);
    assert_eq!(result["command_2"]["rows"], json!([]));
    let none = fixture.query("SELECT id, name FROM item WHERE id > 9").await;
    assert_eq!(none["columns"], json!(["id", "name"]));
    assert_eq!((&none["rows"], &none["row_count"]), (&json!([]), &json!(0)));
}

#[tokio::test]
async fn statements_split_only_where_the_server_would() {
    let fixture = DatabaseFixture::new();
    let sql = r"
        CREATE FUNCTION twice(n int) RETURNS int LANGUAGE plpgsql AS $f$ BEGIN RETURN n * 2; END; $f$;
        CREATE FUNCTION thrice(n int) RETURNS int BEGIN ATOMIC
            SELECT CASE WHEN n IS NULL THEN 0 ELSE n * 3 END; END;
        SELECT 'a;b' || E'\';' || $$;$$ || $é$;$é$ /* ; /* ; */ ; */ AS text, twice(2), thrice(3)";
    let result = fixture.query(sql).await;
    assert_eq!(result["rows"], json!([{"text": "a;b';;;", "twice": 4, "thrice": 9}]));
    assert!(result.get("command_3").is_none(), "{result}");
}

#[tokio::test]
async fn params_are_a_list_or_a_map_and_take_the_types_of_their_places() {
    let fixture = DatabaseFixture::new();
    fixture.query(TABLE).await;
    let insert = fixture.sql_call("INSERT INTO item VALUES ($1, $2, $3, $4) RETURNING *");
    let row = json!([7, "it's", {"a": [1, null]}, ["x", "y, \"z\""]]);
    let inserted = fixture.call_result(with_params(insert, row)).await;
    assert_eq!(
        inserted["rows"][0],
        json!({"id": 7, "name": "it's", "data": {"a": [1, null]}, "tags": ["x", "y, \"z\""]})
    );
    let select = fixture.sql_call("SELECT :name::text || :name AS twice, :id + 1 AS next, '12:30'::time AS t");
    let result = fixture
        .call_result(with_params(select, json!({"name": "n", "id": 4})))
        .await;
    assert_eq!(result["rows"][0], json!({"twice": "nn", "next": 5, "t": "12:30:00"}));
    let missing = with_params(fixture.sql_call("SELECT :gone"), json!({"name": 1}));
    assert_eq!(failure_error(&fixture.run_call(missing).await).code, "SQL_BIND");
    let alone = fixture.query_error("SELECT $1::int").await;
    assert_eq!(alone.code, "SQL_BIND", "{alone:?}");
}

#[tokio::test]
async fn a_value_carries_its_type_if_the_server_cannot_infer_it() {
    let fixture = DatabaseFixture::new();
    let values = json!(["a", 1, 1.5, true, {"k": [1]}, null]);
    let call = fixture.sql_call("SELECT jsonb_build_array($1, $2, $3, $4, $5, $6) AS all");
    let result = fixture.call_result(with_params(call, values.clone())).await;
    assert_eq!(first_row(&result), values);
}

#[tokio::test]
async fn values_are_inserted_into_statements_without_parameters() {
    let fixture = DatabaseFixture::new();
    let text = |text: &str| Piece::Text(text.to_owned());
    let value = |value: serde_json::Value| Piece::Value(value);
    let call = fixture.template_call(vec![
        text("CREATE TABLE t (a int DEFAULT "),
        value(json!(-5)),
        text(", b text DEFAULT "),
        value(json!("it's \\ so")),
        text("); INSERT INTO t DEFAULT VALUES; SET application_name = "),
        value(json!("x'y")),
        text("; SELECT a, b, current_setting('application_name') AS c FROM "),
        Piece::Ident(json!("t")),
        text(" WHERE a IN ("),
        value(json!([-5, 6])),
        text(") AND b LIKE "),
        value(json!("it%")),
    ]);
    let result = fixture.call_result(call).await;
    assert_eq!(result["rows"], json!([{"a": -5, "b": "it's \\ so", "c": "x'y"}]));
}

#[tokio::test]
async fn the_schema_is_the_search_path_of_only_that_call() {
    let fixture = DatabaseFixture::new();
    fixture
        .query("CREATE SCHEMA \"My\"; CREATE TABLE \"My\".t AS SELECT 1 AS one")
        .await;
    let mut call = fixture.sql_call("SELECT one FROM t");
    call.fields.insert("schema".to_owned(), json!("My, public"));
    assert_eq!(first_row(&fixture.call_result(call).await), 1);
    assert_eq!(fixture.query_error("SELECT one FROM t").await.code, "PG_42P01");
}

#[tokio::test]
async fn a_transaction_of_the_author_is_atomic_and_never_left_open() {
    let fixture = DatabaseFixture::new();
    fixture.query(TABLE).await;
    let failed = fixture
        .query_error("BEGIN; INSERT INTO item VALUES (1); SELECT 1 / 0; COMMIT")
        .await;
    assert_eq!(
        (failed.code.as_str(), &failed.details["statement"]),
        ("PG_22012", &json!(2))
    );
    let open = fixture.query_error("BEGIN; INSERT INTO item VALUES (2)").await;
    assert_eq!(open.code, "PG_TRANSACTION_OPEN");
    assert_eq!(fixture.query_value("SELECT count(*) FROM item").await, 0);
    fixture.query("BEGIN; INSERT INTO item VALUES (3); COMMIT").await;
    // Without a transaction, each statement is committed separately.
    fixture.query_error("INSERT INTO item VALUES (4); SELECT 1 / 0").await;
    assert_eq!(
        fixture.query_value("SELECT array_agg(id) FROM item").await,
        json!([3, 4])
    );
}
