//! Warns about playbooks that are valid but probably do not do what their author expects.

use model::playbook::{Directive, LoopMode};
use model::source::Span;

use crate::playbook::check::conditions::{is_always, matches_every_error};
use crate::playbook::credentials::{CredentialUses, keychain_field_read};
use crate::playbook::read::PlaybookReader;
use crate::playbook::{JumpTarget, Playbook, PolicyRule, SetEntry, Step, Task, UnmatchedAction, WriteTarget};
use crate::template::Tree;

/// Names that have another meaning in templates.
pub(crate) const RESERVED: &[&str] = &[
    "workload",
    "ctx",
    "iter",
    "args",
    "input",
    "event",
    "outcome",
    "output",
    "execution_id",
    "keychain",
];

const REDUCERS: &[&str] = &["$add", "$append", "$max", "$min", "$merge"];

pub(crate) fn check(playbook: &Playbook, reader: &mut PlaybookReader) {
    for step in &playbook.steps {
        check_name(step.name.as_str(), "step", step.span, reader);
        if let Some(loop_) = &step.loop_ {
            check_name(loop_.iterator.as_str(), "iterator", loop_.span, reader);
            let has_default_limit = loop_.mode == LoopMode::Parallel && loop_.max_in_flight.is_none();
            if has_default_limit && step.cursor_claim().is_none() {
                let message = format!("the parallel loop of step `{}` has no `max_in_flight`", step.name);
                let warning = reader
                    .diagnostic("W207", message, loop_.span)
                    .with_help("add `max_in_flight: 8` under `loop.spec`; the default is 16   noetl explain W207");
                reader.report(warning);
            }
        }
        for task in step.all_tasks() {
            check_secret_as_name(step, task, reader);
        }
        for (index, task) in step.tasks.iter().enumerate() {
            if task.label != step.name {
                check_name(task.label.as_str(), "task", task.span, reader);
            }
            check_unmatched_error(task, reader);
            check_endless_jump(step, index, task, reader);
            for write in set_entries(task) {
                check_shared_write(step, write, reader);
                check_stray_iter(step, write, reader);
            }
        }
    }
}

fn set_entries(task: &Task) -> impl Iterator<Item = &SetEntry> {
    let rule_writes = task.policy.rules.iter().flat_map(|rule| &rule.action.writes);
    task.set.iter().chain(rule_writes)
}

fn check_name(name: &str, subject: &str, span: Span, reader: &mut PlaybookReader) {
    let is_identifier =
        name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !name.starts_with(|c: char| c.is_numeric());
    let warning = if RESERVED.contains(&name) || name.starts_with('_') {
        let message = format!("the name of the {subject} `{name}` is reserved in templates");
        reader
            .diagnostic("W214", message, span)
            .with_label("choose another name; in templates this one has another meaning")
    } else if !is_identifier {
        let message = format!("templates cannot refer to the {subject} `{name}` by its name");
        reader
            .diagnostic("W213", message, span)
            .with_label("use letters, digits and `_`, and begin with a letter")
    } else {
        return;
    };
    reader.report(warning);
}

/// Rejects an `auth` that reads a field of a keychain entry: `auth` takes a name, and the field holds a secret.
fn check_secret_as_name(step: &Step, task: &Task, reader: &mut PlaybookReader) {
    for tree in CredentialUses::from_task(step, task).name_templates {
        tree.walk(&mut |template| {
            let Some(entry) = keychain_field_read(template) else {
                return;
            };
            let message = format!(
                "`auth` of task `{}` is a secret, not the name of a credential",
                task.label
            );
            let label = format!("write `auth: {entry}`, or a map such as `{{type: bearer, token: …}}`");
            reader.report_error("E0128", message, template.span(), label);
        });
    }
}

fn check_unmatched_error(task: &Task, reader: &mut PlaybookReader) {
    let policy = &task.policy;
    let handles_errors = |rule: &PolicyRule| matches_every_error(rule.when.as_ref());
    let Some(first) = policy.rules.first() else {
        return;
    };
    if policy.unmatched == UnmatchedAction::Continue && !policy.rules.iter().any(handles_errors) {
        let warning = reader
            .diagnostic(
                "W204",
                "no rule handles errors: the pipeline continues after a failed task",
                first.span,
            )
            .with_help("add `- else: {then: {do: fail}}`   noetl explain W204");
        reader.report(warning);
    }
}

/// Warns about an unconditional jump back in a task whose other rules never leave the cycle.
fn check_endless_jump(step: &Step, index: usize, task: &Task, reader: &mut PlaybookReader) {
    for rule in &task.policy.rules {
        let jumps_back = || match &rule.action.to {
            Some(JumpTarget::Label(label)) => step.task(label.as_str()).is_some_and(|(to, _)| to <= index),
            Some(JumpTarget::Previous) => true,
            Some(JumpTarget::Template(_)) | None => false,
        };
        let leaves_cycle = |other: &PolicyRule| {
            !std::ptr::eq(other, rule)
                && matches!(
                    other.action.directive,
                    Directive::Break | Directive::Fail | Directive::Continue
                )
        };
        let is_endless = rule.action.directive == Directive::Jump
            && is_always(rule.when.as_ref())
            && !task.policy.rules.iter().any(leaves_cycle)
            && jumps_back();
        if is_endless {
            let message = format!("task `{}` always jumps back", task.label);
            let warning = reader
                .diagnostic("W208", message, rule.span)
                .with_label("no rule ends these jumps")
                .with_help("add a `when` to the jump, and a rule with `do: break`   noetl explain W208");
            reader.report(warning);
        }
    }
}

fn check_shared_write(step: &Step, write: &SetEntry, reader: &mut PlaybookReader) {
    let is_parallel = step
        .loop_
        .as_ref()
        .is_some_and(|loop_| loop_.mode == LoopMode::Parallel);
    if !is_parallel || write.target != WriteTarget::Ctx || is_reducer(&write.value) {
        return;
    }
    let message = format!("iterations of a parallel loop write `ctx.{}`", write.key);
    let warning = reader
        .diagnostic("W206", message, write.span)
        .with_label("the step fails with CTX_CONFLICT if the values differ")
        .with_help("use a reducer such as `{$append: …}` or `{$add: 1}`, or `set_iter`   noetl explain W206");
    reader.report(warning);
}

fn is_reducer(value: &Tree) -> bool {
    let is_reducer = |key: &str| REDUCERS.contains(&key);
    match value {
        Tree::Literal(serde_json::Value::Object(map)) => map.keys().any(|key| is_reducer(key)),
        Tree::Map(pairs) => pairs.iter().any(|(key, _)| is_reducer(key)),
        _ => false,
    }
}

fn check_stray_iter(step: &Step, write: &SetEntry, reader: &mut PlaybookReader) {
    if step.loop_.is_some() || write.target != WriteTarget::Iter {
        return;
    }
    let message = format!(
        "`iter.{}` is written in step `{}`, which has no loop",
        write.key, step.name
    );
    let warning = reader
        .diagnostic("W212", message, write.span)
        .with_label("the value is lost at the end of this pipeline");
    reader.report(warning);
}
