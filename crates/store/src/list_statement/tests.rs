//! Statements of lists.

use super::*;

const DIALECT: SqlDialect = SqlDialect {
    table: "execution",
    label_table: "execution_label",
    error_code: "code(e.error)",
    placeholder: '?',
    limits_parts: false,
    like: "LIKE",
};

fn statement(filter: &ExecutionFilter) -> ListStatement {
    list_statement(filter, "execution_id, status", &DIALECT, Time(0))
}

#[test]
fn a_list_without_filters_has_only_a_limit() {
    let statement = statement(&ExecutionFilter::default());
    assert_eq!(
        statement.sql,
        "SELECT e.execution_id, e.status FROM execution AS e WHERE 1 = 1 ORDER BY e.execution_id DESC LIMIT ?2"
    );
    assert_eq!(statement.values[1], FilterValue::Integer(50));
}

#[test]
fn each_status_of_each_playbook_is_read_by_its_index() {
    let filter = ExecutionFilter {
        statuses: vec![RunStatus::Failed, RunStatus::Cancelled],
        paths: vec!["a".into(), "b".into(), "a".into()],
        ..ExecutionFilter::default()
    };
    let sql = statement(&filter).sql;
    assert_eq!(sql.matches(" UNION ALL ").count(), 3);
    assert!(sql.contains("WHERE e.status = ?2 AND e.path = ?3 UNION ALL"), "{sql}");
    assert!(sql.ends_with("ORDER BY execution_id DESC LIMIT ?6"), "{sql}");
    let limiting = SqlDialect {
        limits_parts: true,
        ..DIALECT
    };
    let sql = list_statement(&filter, "execution_id", &limiting, Time(0)).sql;
    assert!(
        sql.starts_with("SELECT * FROM ((SELECT e.execution_id FROM execution AS e WHERE"),
        "{sql}"
    );
    assert_eq!(
        sql.matches("ORDER BY e.execution_id DESC LIMIT ?6) ").count(),
        3,
        "{sql}"
    );
}

#[test]
fn many_playbooks_are_read_by_their_index_and_their_statuses_checked() {
    let filter = ExecutionFilter {
        statuses: vec![RunStatus::Failed, RunStatus::Cancelled],
        paths: (0..60).map(|number| format!("p{number}").into()).collect(),
        ..ExecutionFilter::default()
    };
    let sql = statement(&filter).sql;
    assert_eq!(sql.matches(" UNION ALL ").count(), 59);
    assert_eq!(sql.matches("e.status || '' IN (?1, ?2)").count(), 60);
    assert_eq!(sql.matches("OFFSET").count(), 60);
}

#[test]
fn a_condition_without_an_index_is_checked_for_a_limited_number_of_executions() {
    let filter = ExecutionFilter {
        statuses: vec![RunStatus::Failed, RunStatus::Cancelled],
        search: ExecutionSearch {
            text: Some("50%".to_owned()),
            ..ExecutionSearch::default()
        },
        ..ExecutionFilter::default()
    };
    let statement = statement(&filter);
    assert_eq!(statement.sql.matches("LIMIT 1 OFFSET ?5").count(), 2);
    assert_eq!(statement.values[3], FilterValue::Text("%50\\%%".to_owned()));
    assert_eq!(
        statement.values[4],
        FilterValue::Integer(to_i64(SEARCHED_EXECUTIONS_MAX as u64 / 2))
    );
}

#[test]
fn one_label_is_read_by_its_index_and_the_others_are_checked() {
    let mut labels = Labels::default();
    labels.insert("env", "prod").unwrap();
    labels.insert("team", "x").unwrap();
    let filter = ExecutionFilter {
        labels,
        since: Some(Time(0)),
        ..ExecutionFilter::default()
    };
    let sql = statement(&filter).sql;
    assert!(
        sql.contains("FROM execution_label AS l CROSS JOIN execution AS e"),
        "{sql}"
    );
    assert!(
        sql.contains("WHERE l.key = ?1 AND l.value = ?2 AND l.execution_id >= ?5"),
        "{sql}"
    );
    assert!(sql.contains("o.key = ?3 AND o.value = ?4"), "{sql}");
    assert!(sql.ends_with("ORDER BY l.execution_id DESC LIMIT ?8"), "{sql}");
}

#[test]
fn an_error_code_is_read_by_its_index() {
    let filter = ExecutionFilter {
        statuses: vec![RunStatus::Failed],
        search: ExecutionSearch {
            error_code: Some("HTTP_STATUS".to_owned()),
            ..ExecutionSearch::default()
        },
        ..ExecutionFilter::default()
    };
    let sql = statement(&filter).sql;
    assert!(
        sql.contains("WHERE e.error IS NOT NULL AND code(e.error) = ?2"),
        "{sql}"
    );
    assert!(sql.contains("e.status || '' IN (?1)"), "{sql}");
}
