//! Warns about playbooks that are valid but probably do not do what their author expects.

use crate::playbook::check::words::{is_always, matches_every_error};
use crate::playbook::credentials::{Opens, field_read};
use crate::playbook::read::Reader;
use crate::playbook::{
    Directive, Jump, LoopMode, Playbook, Rule, Step, Task, Unmatched, Write, WriteTarget,
};
use crate::source::Span;
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

pub(crate) fn check(playbook: &Playbook, reader: &mut Reader) {
    for step in &playbook.steps {
        name(step.name.as_str(), "step", step.span, reader);
        if let Some(looped) = &step.loop_ {
            name(looped.iterator.as_str(), "iterator", looped.span, reader);
            let is_silent = looped.mode == LoopMode::Parallel && looped.max_in_flight.is_none();
            if is_silent && step.claim().is_none() {
                let message = format!(
                    "the parallel loop of step `{}` has no `max_in_flight`",
                    step.name
                );
                let warning = reader
                    .diagnostic("W207", message, looped.span)
                    .help("add `max_in_flight: 8` under `loop.spec`; the default is 16   noetl explain W207");
                reader.report(warning);
            }
        }
        for task in step.all_tasks() {
            secret_as_name(step, task, reader);
        }
        for (at, task) in step.tasks.iter().enumerate() {
            if task.label != step.name {
                name(task.label.as_str(), "task", task.span, reader);
            }
            unmatched_error(task, reader);
            endless_jump(step, at, task, reader);
            for write in writes(task) {
                shared_write(step, write, reader);
                stray_iter(step, write, reader);
            }
        }
    }
}

fn writes(task: &Task) -> impl Iterator<Item = &Write> {
    let ruled = task.policy.rules.iter().flat_map(|rule| &rule.then.writes);
    task.set.iter().chain(ruled)
}

fn name(name: &str, what: &str, span: Span, reader: &mut Reader) {
    let is_word = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_numeric());
    let warning = if RESERVED.contains(&name) || name.starts_with('_') {
        let message = format!("the name of the {what} `{name}` is reserved in templates");
        reader
            .diagnostic("W214", message, span)
            .label("choose another name; in templates this one has another meaning")
    } else if !is_word {
        let message = format!("templates cannot refer to the {what} `{name}` by its name");
        reader
            .diagnostic("W213", message, span)
            .label("use letters, digits and `_`, and begin with a letter")
    } else {
        return;
    };
    reader.report(warning);
}

/// Rejects an `auth` that reads a field of a keychain entry: `auth` takes a name, and the field holds a secret.
fn secret_as_name(step: &Step, task: &Task, reader: &mut Reader) {
    for tree in Opens::of_task(step, task).rendered {
        tree.walk(&mut |template| {
            let Some(entry) = field_read(template) else {
                return;
            };
            let message = format!(
                "`auth` of task `{}` is a secret, not the name of a credential",
                task.label
            );
            let label =
                format!("write `auth: {entry}`, or a map such as `{{type: bearer, token: …}}`");
            reader.error("E0128", message, template.span(), label);
        });
    }
}

fn unmatched_error(task: &Task, reader: &mut Reader) {
    let policy = &task.policy;
    let covers = |rule: &Rule| matches_every_error(rule.when.as_ref());
    let Some(first) = policy.rules.first() else {
        return;
    };
    if policy.unmatched == Unmatched::Continue && !policy.rules.iter().any(covers) {
        let warning = reader
            .diagnostic(
                "W204",
                "no rule handles errors: the pipeline continues after a failed task",
                first.span,
            )
            .help("add `- else: {then: {do: fail}}`   noetl explain W204");
        reader.report(warning);
    }
}

/// Warns about an unconditional jump back in a task whose other rules never leave the cycle.
fn endless_jump(step: &Step, at: usize, task: &Task, reader: &mut Reader) {
    for rule in &task.policy.rules {
        let back = || match &rule.then.to {
            Some(Jump::Label(label)) => step.task(label.as_str()).is_some_and(|(to, _)| to <= at),
            Some(Jump::Previous) => true,
            Some(Jump::Template(_)) | None => false,
        };
        let leaves = |other: &Rule| {
            !std::ptr::eq(other, rule)
                && matches!(
                    other.then.directive,
                    Directive::Break | Directive::Fail | Directive::Continue
                )
        };
        let is_endless = rule.then.directive == Directive::Jump
            && is_always(rule.when.as_ref())
            && !task.policy.rules.iter().any(leaves)
            && back();
        if is_endless {
            let message = format!("task `{}` always jumps back", task.label);
            let warning = reader
                .diagnostic("W208", message, rule.span)
                .label("no rule ends these jumps")
                .help("add a `when` to the jump, and a rule with `do: break`   noetl explain W208");
            reader.report(warning);
        }
    }
}

fn shared_write(step: &Step, write: &Write, reader: &mut Reader) {
    let is_parallel = step
        .loop_
        .as_ref()
        .is_some_and(|looped| looped.mode == LoopMode::Parallel);
    if !is_parallel || write.target != WriteTarget::Ctx || is_reducer(&write.value) {
        return;
    }
    let message = format!("iterations of a parallel loop write `ctx.{}`", write.key);
    let warning = reader
        .diagnostic("W206", message, write.span)
        .label("the step fails with CTX_CONFLICT if the values differ")
        .help("use a reducer such as `{$append: …}` or `{$add: 1}`, or `set_iter`   noetl explain W206");
    reader.report(warning);
}

fn is_reducer(value: &Tree) -> bool {
    let is_one = |key: &str| REDUCERS.contains(&key);
    match value {
        Tree::Literal(serde_json::Value::Object(map)) => map.keys().any(|key| is_one(key)),
        Tree::Map(pairs) => pairs.iter().any(|(key, _)| is_one(key)),
        _ => false,
    }
}

fn stray_iter(step: &Step, write: &Write, reader: &mut Reader) {
    if step.loop_.is_some() || write.target != WriteTarget::Iter {
        return;
    }
    let message = format!(
        "`iter.{}` is written in step `{}`, which has no loop",
        write.key, step.name
    );
    let warning = reader
        .diagnostic("W212", message, write.span)
        .label("the value is lost at the end of this pipeline");
    reader.report(warning);
}
