//! Rejects SQL statements that consist of a single template: no database can run them.

use crate::playbook::read::PlaybookReader;
use crate::playbook::{Playbook, Task};
use crate::template::{Template, Tree};

/// Kinds whose `command` is SQL.
const SQL_KINDS: [&str; 3] = ["postgres", "sqlite", "duckdb"];

pub(crate) fn check(playbook: &Playbook, reader: &mut PlaybookReader) {
    for step in &playbook.steps {
        for task in step.all_tasks() {
            for tree in statements(task) {
                tree.walk(&mut |template| check_template(template, task, reader));
            }
        }
    }
}

/// Returns the texts of a task that are SQL.
fn statements(task: &Task) -> Vec<&Tree> {
    match task.kind.as_str() {
        kind if SQL_KINDS.contains(&kind) => task.fields.get("command").into_iter().collect(),
        "transfer" => {
            let ends = ["source", "target"].into_iter();
            let ends = ends.filter_map(|key| match task.fields.get(key) {
                Some(Tree::Map(entries)) => Some(entries),
                _ => None,
            });
            let entries = ends.flatten();
            let is_sql = |key: &str| matches!(key, "query" | "command");
            let found = entries.filter(|(key, _)| is_sql(key.as_str()));
            found.map(|(_, tree)| tree).collect()
        }
        _ => Vec::new(),
    }
}

fn check_template(template: &Template, task: &Task, reader: &mut PlaybookReader) {
    let statement = template.source().trim().trim_end_matches(';').trim_end();
    let whole = Template::parse(statement, template.span());
    if !whole.is_ok_and(|whole| whole.is_one_value()) {
        return;
    }
    let message = format!(
        "a statement of task `{}` is a single template, which would be bound as a value",
        task.label
    );
    reader.report_error(
        "E0130",
        message,
        template.span(),
        "write the statement here with templates for its values, or mark it as SQL: `| raw_sql`"
            .to_owned(),
    );
}
