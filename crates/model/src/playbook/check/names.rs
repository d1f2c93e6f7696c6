//! Names in templates that nothing defines.
//!
//! A request may add names to the workload, so an unknown bare name is a warning. What can come from nowhere else is an
//! error: names of `iter`, `steps.x`, and `outcome` or `event` where there is none.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::playbook::check::lint::RESERVED;
use crate::playbook::read::{Reader, Use};
use crate::playbook::{Playbook, Step, WriteTarget};
use crate::template::Tree;

/// Names that are always there, and functions of the template language.
const BUILT_IN: &[&str] = &[
    "path",
    "version",
    "job",
    "loop",
    "loop_index",
    "steps",
    "results",
    "parent_execution_id",
    "idempotency_key",
    "env",
    "now",
    "range",
    "dict",
    "namespace",
    "cycler",
    "joiner",
    "debug",
    "lipsum",
    "true",
    "false",
    "none",
    "True",
    "False",
    "None",
    "self",
    "super",
    "caller",
];

const ITER: &[&str] = &["index", "first", "last", "length", "parent"];

pub(crate) fn check(playbook: &Playbook, reader: &mut Reader) {
    let uses = std::mem::take(&mut reader.uses);
    let shared = Shared::of(playbook);
    let mut current: Option<(usize, Known<'_>)> = None;
    for found in &uses {
        let Some((at, step)) = found
            .step
            .and_then(|at| Some((at, playbook.steps.get(at)?)))
        else {
            continue;
        };
        if current.as_ref().is_none_or(|(known, _)| *known != at) {
            current = Some((at, Known::of(&shared, step)));
        }
        if let Some((_, known)) = &current {
            for path in found.template.paths() {
                look(path, found, known, reader);
            }
        }
    }
}

/// What one step knows besides what all know.
struct Known<'p> {
    shared: &'p Shared<'p>,
    step: &'p Step,
    iter: BTreeSet<&'p str>,
    bare: BTreeSet<&'p str>,
    /// Whether names may come in that cannot be listed.
    is_open: bool,
}

impl<'p> Known<'p> {
    fn of(shared: &'p Shared<'p>, step: &'p Step) -> Self {
        let mut known = Self {
            shared,
            step,
            iter: BTreeSet::new(),
            bare: BTreeSet::new(),
            is_open: false,
        };
        let iterator = step.loop_.as_ref().map(|looped| looped.iterator.as_str());
        known.iter.extend(iterator);
        for task in &step.tasks {
            known.bare.insert(task.label.as_str());
            known.keys(task.input.as_ref());
            let ruled = task.policy.rules.iter().flat_map(|rule| &rule.then.writes);
            for write in task.set.iter().chain(ruled) {
                match write.target {
                    WriteTarget::Iter => known.iter.insert(root(write.key.as_str())),
                    WriteTarget::Local => known.bare.insert(root(write.key.as_str())),
                    WriteTarget::Ctx => false,
                };
            }
        }
        known.keys(step.input.as_ref());
        for args in shared.args.get(step.name.as_str()).into_iter().flatten() {
            known.keys(Some(args));
        }
        known.bare.extend(known.iter.clone());
        known
    }

    fn keys(&mut self, tree: Option<&'p Tree>) {
        match tree {
            Some(Tree::Map(pairs)) => self.bare.extend(pairs.iter().map(|(key, _)| key.as_str())),
            Some(Tree::Literal(serde_json::Value::Object(map))) => {
                self.bare.extend(map.keys().map(String::as_str));
            }
            Some(Tree::Template(_)) => self.is_open = true,
            _ => {}
        }
    }
}

/// What every step knows.
struct Shared<'p> {
    /// Workload keys, step names and everything written to `ctx`.
    names: BTreeSet<&'p str>,
    steps: BTreeSet<&'p str>,
    /// What arcs pass on, by the step they lead to.
    args: BTreeMap<&'p str, Vec<&'p Tree>>,
}

impl<'p> Shared<'p> {
    fn of(playbook: &'p Playbook) -> Self {
        let steps = playbook.steps.iter().map(|step| step.name.as_str());
        let steps: BTreeSet<&str> = steps.collect();
        let mut names = steps.clone();
        names.extend(playbook.workload.keys().map(String::as_str));
        let mut args: BTreeMap<&str, Vec<&Tree>> = BTreeMap::new();
        for step in &playbook.steps {
            let tasks = step.tasks.iter();
            let ruled = tasks.clone().flat_map(|task| &task.policy.rules);
            let writes = (step.set.iter())
                .chain(step.next.arcs.iter().flat_map(|arc| &arc.set))
                .chain(tasks.flat_map(|task| &task.set))
                .chain(ruled.flat_map(|rule| &rule.then.writes));
            let shared = writes.filter(|write| write.target == WriteTarget::Ctx);
            names.extend(shared.map(|write| root(write.key.as_str())));
            for arc in &step.next.arcs {
                args.entry(arc.step.as_str()).or_default().extend(&arc.args);
            }
        }
        Self { names, steps, args }
    }
}

fn root(path: &str) -> &str {
    path.split(['.', '[']).next().unwrap_or(path)
}

fn look(path: &str, found: &Use, known: &Known<'_>, reader: &mut Reader) {
    let name = root(path);
    let second = path
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix('.'))
        .map(root);
    match (name, second) {
        ("iter", Some(key)) => iter(key, found, known, reader),
        ("steps", Some(step)) => steps(step, found, known, reader),
        ("outcome" | "output", _) if !found.place.has_outcome() => {
            absent(name, "it exists in rules, `set` and guards", found, reader);
        }
        ("event", _) if !found.place.has_event() => {
            absent(name, "it exists in guards and admission", found, reader);
        }
        _ => {
            let is_known = name.starts_with('_')
                || RESERVED.contains(&name)
                || BUILT_IN.contains(&name)
                || known.shared.names.contains(name)
                || known.bare.contains(name);
            if !is_known && !known.is_open {
                bare(name, found, known, reader);
            }
        }
    }
}

fn iter(key: &str, found: &Use, known: &Known<'_>, reader: &mut Reader) {
    if known.iter.contains(key) || ITER.contains(&key) || key.starts_with('_') {
        return;
    }
    let path = format!("iter.{key}");
    let Some(range) = unguarded(found, &path) else {
        return;
    };
    let mut scope: Vec<String> = known
        .iter
        .iter()
        .map(|name| format!("iter.{name}"))
        .collect();
    if known.step.loop_.is_some() {
        scope.push("iter.index".to_owned());
    }
    let label = if scope.is_empty() {
        format!(
            "step `{}` has no loop and writes no `iter`",
            known.step.name
        )
    } else {
        format!("in scope: {}", scope.join(", "))
    };
    let span = found.node.locate(&reader.source.text, &range);
    reader.error(
        "T0201",
        format!("`{path}` is not defined here"),
        span,
        label,
    );
}

fn steps(name: &str, found: &Use, known: &Known<'_>, reader: &mut Reader) {
    let steps = &known.shared.steps;
    if steps.contains(name) {
        return;
    }
    let path = format!("steps.{name}");
    if let Some(range) = unguarded(found, &path) {
        let label = match reader.suggest(name, steps.iter().copied()) {
            Some(meant) => format!("did you mean `steps.{meant}`?"),
            None => "no step has this name".to_owned(),
        };
        let span = found.node.locate(&reader.source.text, &range);
        reader.error("T0203", format!("`{path}` names no step"), span, label);
    }
}

fn absent(name: &str, advice: &str, found: &Use, reader: &mut Reader) {
    if let Some(range) = unguarded(found, name) {
        let span = found.node.locate(&reader.source.text, &range);
        reader.error("T0202", format!("there is no `{name}` here"), span, advice);
    }
}

fn bare(name: &str, found: &Use, known: &Known<'_>, reader: &mut Reader) {
    let Some(range) = unguarded(found, name) else {
        return;
    };
    let names = known.shared.names.iter().chain(&known.bare).copied();
    let label = match reader.suggest(name, names) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "it must come with the request; add a default under `workload`".to_owned(),
    };
    let span = found.node.locate(&reader.source.text, &range);
    let warning = reader
        .diagnostic(
            "W210",
            format!("nothing in the playbook defines `{name}`"),
            span,
        )
        .label(label);
    reader.report(warning);
}

/// Where a path is used without a `default` or a test for being defined; the whole text if it cannot be found.
fn unguarded(found: &Use, path: &str) -> Option<Range<usize>> {
    let text = found.node.as_str()?;
    let mut seen = false;
    for (at, _) in text.match_indices(path) {
        let end = at + path.len();
        let before = text[..at].trim_end().chars().next_back();
        let after = text[end..].chars().next();
        let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let continues = text[..at].chars().next_back();
        if is_part(continues) || is_part(after) || before == Some('.') {
            continue;
        }
        seen = true;
        if !is_guarded(&text[end..]) {
            return Some(at..end);
        }
    }
    (!seen).then_some(0..text.len())
}

/// Whether what follows a path makes a missing value harmless.
fn is_guarded(rest: &str) -> bool {
    let chain =
        |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '[' | ']' | '\'' | '"' | ')');
    let rest = rest.trim_start_matches(chain).trim_start();
    if let Some(filter) = rest.strip_prefix('|') {
        let filter = filter.trim_start();
        let name: String = filter
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        return matches!(name.as_str(), "default" | "d");
    }
    let Some(test) = rest.strip_prefix("is ") else {
        return false;
    };
    let test = test.trim_start();
    let test = test.strip_prefix("not ").unwrap_or(test).trim_start();
    ["defined", "undefined", "none"]
        .iter()
        .any(|word| test.starts_with(word))
}
