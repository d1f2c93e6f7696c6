//! The playbooks that call a playbook.
//!
//! Input: the latest version of every playbook. Output: the tasks of kind `playbook` that name the path. Only texts
//! that contain the path are parsed. A path that a template computes is not found.

use language::playbook::{Playbook, Step, Task, parse_catalog_id};
use language::template::Tree;
use serde_json::Value;
use wire::api::{PlaybookCaller, PlaybookCallerList};

use crate::Server;
use crate::error::Error;

/// Maximum number of callers that are returned.
const CALLERS_MAX: usize = 200;
/// Maximum number of playbooks that are parsed for one request.
const PARSED_PLAYBOOKS_MAX: usize = 500;

impl Server {
    /// The playbooks whose latest versions call a playbook.
    pub(crate) async fn playbook_callers(&self, path: &str) -> Result<PlaybookCallerList, Error> {
        let entries = self.shared.store.catalog().await?;
        let mut candidates = entries.iter().filter(|entry| entry.text.contains(path));
        let mut callers = Vec::new();
        for entry in candidates.by_ref().take(PARSED_PLAYBOOKS_MAX) {
            // A text that a newer release no longer accepts cannot run, so it calls nothing.
            let Ok(net) = self.shared.catalog.net(&entry.hash).await else {
                continue;
            };
            callers.extend(list_calls(&net.playbook, path).map(|(step, task)| PlaybookCaller {
                path: entry.path.to_string(),
                version: entry.version,
                step: step.name.clone(),
                task: task.label.clone(),
                line: task.span.line,
            }));
        }
        let is_complete = candidates.next().is_none() && callers.len() <= CALLERS_MAX;
        callers.truncate(CALLERS_MAX);
        Ok(PlaybookCallerList {
            path: path.to_owned(),
            callers,
            is_complete,
        })
    }
}

fn list_calls<'p>(playbook: &'p Playbook, path: &str) -> impl Iterator<Item = (&'p Step, &'p Task)> {
    let tasks = playbook
        .steps
        .iter()
        .flat_map(|step| step.all_tasks().map(move |task| (step, task)));
    tasks.filter(move |(_, task)| calls_path(task, path))
}

fn calls_path(task: &Task, path: &str) -> bool {
    let mut named = ["path", "catalog_id"].iter().filter_map(|key| task.fields.get(*key));
    task.kind_spec().starts_playbook
        && named.any(|field| matches!(field, Tree::Literal(Value::String(text)) if parse_catalog_id(text).0 == path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_by_path_with_or_without_a_version() {
        let text = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: p}\nworkflow:\n\
            \x20 - step: one\n    tool: {kind: playbook, path: team/load}\n    next: [{step: two}]\n\
            \x20 - step: two\n    tool: {kind: playbook, catalog_id: team/load@3}\n    next: [{step: three}]\n\
            \x20 - step: three\n    tool: {kind: playbook, path: team/load_all}\n    next: [{step: four}]\n\
            \x20 - step: four\n    tool: {kind: http, url: http://x/team/load}\n";
        let playbook = language::playbook::parse("p.yaml", text.as_bytes()).playbook.unwrap();
        let steps: Vec<&str> = list_calls(&playbook, "team/load")
            .map(|(step, _)| step.name.as_str())
            .collect();
        assert_eq!(steps, ["one", "two"]);
    }
}
