//! Rejects SQL statements that consist of a single template: no database can run them.

use crate::playbook::read::PlaybookReader;
use crate::playbook::{FieldMode, Playbook, Task};
use crate::template::{Template, Tree};

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
    let kind = task.kind_spec();
    if kind.runs_sql {
        return task.fields.get("command").into_iter().collect();
    }
    let ends = kind.keys.iter().filter(|key| key.mode == FieldMode::Endpoint);
    let ends = ends.filter_map(|key| match task.fields.get(key.name) {
        Some(Tree::Map(entries)) => Some(entries),
        _ => None,
    });
    let is_sql = |key: &str| matches!(key, "query" | "command");
    let statements = ends.flatten().filter(|(key, _)| is_sql(key.as_str()));
    statements.map(|(_, tree)| tree).collect()
}

fn check_template(template: &Template, task: &Task, reader: &mut PlaybookReader) {
    let statement = template.source().trim().trim_end_matches(';').trim_end();
    let parsed = Template::parse(statement, template.span());
    if !parsed.is_ok_and(|parsed| parsed.is_one_value()) {
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
        "write the statement here with templates for its values, or mark it as SQL: `| raw_sql`".to_owned(),
    );
}
