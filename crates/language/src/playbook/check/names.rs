//! Checks the names in templates for definitions.
//!
//! A request may add names to the workload, so an unknown plain name is a warning. Names that no request can add are
//! errors: fields of `iter`, `steps.x`, and `outcome` or `event` where they are not available.

use std::collections::{BTreeMap, BTreeSet};

use model::source::Span;

use crate::playbook::check::lint::RESERVED;
use crate::playbook::read::{PlaybookReader, TemplateSite, TemplateUse};
use crate::playbook::{Playbook, Step, WriteTarget};
use crate::template::{PathUse, Tree};

/// Names that are always available, and functions of the template language.
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

pub(crate) fn check(playbook: &Playbook, reader: &mut PlaybookReader) {
    let uses = std::mem::take(&mut reader.uses);
    let shared = PlaybookNames::new(playbook);
    let mut current: Option<(usize, StepNames<'_>)> = None;
    for template_use in &uses {
        if template_use.site == TemplateSite::Default {
            check_default(template_use, &shared, reader);
            continue;
        }
        let Some((step_index, step)) = template_use
            .step
            .and_then(|index| Some((index, playbook.steps.get(index)?)))
        else {
            continue;
        };
        if current
            .as_ref()
            .is_none_or(|(current_index, _)| *current_index != step_index)
        {
            current = Some((step_index, StepNames::new(&shared, step)));
        }
        if let Some((_, names)) = &current {
            for path in template_use.template.path_uses() {
                check_path_use(&path, template_use, names, reader);
            }
        }
    }
}

/// Names that are only available once the run has started.
const RUNTIME_NAMES: &[&str] = &[
    "iter",
    "args",
    "input",
    "event",
    "outcome",
    "output",
    "keychain",
    "steps",
    "results",
    "loop",
    "loop_index",
    "now",
    "idempotency_key",
];

/// Checks a template among the defaults, which are rendered before the run starts.
fn check_default(template_use: &TemplateUse, shared: &PlaybookNames<'_>, reader: &mut PlaybookReader) {
    for used in template_use.template.path_uses() {
        if reader.is_full() {
            return;
        }
        let name = root_name(&used.path);
        let is_default = shared.defaults.contains(name);
        let is_later = RUNTIME_NAMES.contains(&name) || name.starts_with('_') || shared.steps.contains(name);
        let range = template_use.to_source_range(&used.range);
        let span = template_use.node.locate(&reader.source.text, &range);
        if is_later && !is_default {
            let message = format!("`{name}` is not available before the run starts");
            let advice = "defaults can read `workload`, `ctx`, `execution_id`, `job` and `env`";
            reader.report_error("E0141", message, span, advice);
        } else if !is_default
            && !used.guarded
            && !expects_missing(&used, template_use)
            && !RESERVED.contains(&name)
            && !BUILT_IN.contains(&name)
        {
            report_undefined(name, span, shared.defaults.iter().copied(), reader);
        }
    }
}

/// Names that are available in one step only.
struct StepNames<'p> {
    shared: &'p PlaybookNames<'p>,
    step: &'p Step,
    iter: BTreeSet<&'p str>,
    bare_names: BTreeSet<&'p str>,
    /// Whether other names may be available that cannot be listed.
    is_open: bool,
}

impl<'p> StepNames<'p> {
    fn new(shared: &'p PlaybookNames<'p>, step: &'p Step) -> Self {
        let mut names = Self {
            shared,
            step,
            iter: BTreeSet::new(),
            bare_names: BTreeSet::new(),
            is_open: false,
        };
        let iterator = step.loop_.as_ref().map(|loop_| loop_.iterator.as_str());
        names.iter.extend(iterator);
        for task in &step.tasks {
            names.bare_names.insert(task.label.as_str());
            names.add_keys(task.input.as_ref());
            let ruled = task.policy.rules.iter().flat_map(|rule| &rule.action.writes);
            for write in task.set.iter().chain(ruled) {
                match write.target {
                    WriteTarget::Iter => names.iter.insert(root_name(write.key.as_str())),
                    WriteTarget::Local => names.bare_names.insert(root_name(write.key.as_str())),
                    WriteTarget::Ctx => false,
                };
            }
        }
        names.add_keys(step.input.as_ref());
        for args in shared.args.get(step.name.as_str()).into_iter().flatten() {
            names.add_keys(Some(args));
        }
        names.bare_names.extend(names.iter.clone());
        names
    }

    fn has_iter(&self, key: &str) -> bool {
        self.iter.contains(key) || ITER.contains(&key) || key.starts_with('_')
    }

    fn add_keys(&mut self, tree: Option<&'p Tree>) {
        match tree {
            Some(Tree::Map(pairs)) => self.bare_names.extend(pairs.iter().map(|(key, _)| key.as_str())),
            Some(Tree::Literal(serde_json::Value::Object(map))) => {
                self.bare_names.extend(map.keys().map(String::as_str));
            }
            Some(Tree::Template(_)) => self.is_open = true,
            _ => {}
        }
    }
}

/// Names that are available in all steps.
struct PlaybookNames<'p> {
    /// Keys of `workload` and `ctx`.
    defaults: BTreeSet<&'p str>,
    /// Keys of `workload` and `ctx`, step names, and everything written to `ctx`.
    names: BTreeSet<&'p str>,
    steps: BTreeSet<&'p str>,
    /// Arguments that arcs pass on, by target step.
    args: BTreeMap<&'p str, Vec<&'p Tree>>,
}

impl<'p> PlaybookNames<'p> {
    fn new(playbook: &'p Playbook) -> Self {
        let steps = playbook.steps.iter().map(|step| step.name.as_str());
        let steps: BTreeSet<&str> = steps.collect();
        let defaults = playbook.workload.keys().chain(playbook.ctx.keys());
        let defaults: BTreeSet<&str> = defaults.map(String::as_str).collect();
        let mut names = steps.clone();
        names.extend(&defaults);
        let mut args: BTreeMap<&str, Vec<&Tree>> = BTreeMap::new();
        for step in &playbook.steps {
            let tasks = step.tasks.iter();
            let ruled = tasks.clone().flat_map(|task| &task.policy.rules);
            let writes = (step.set.iter())
                .chain(step.next.arcs.iter().flat_map(|arc| &arc.set))
                .chain(tasks.flat_map(|task| &task.set))
                .chain(ruled.flat_map(|rule| &rule.action.writes));
            let shared = writes.filter(|write| write.target == WriteTarget::Ctx);
            names.extend(shared.map(|write| root_name(write.key.as_str())));
            for arc in &step.next.arcs {
                args.entry(arc.step.as_str()).or_default().extend(&arc.args);
            }
        }
        Self {
            defaults,
            names,
            steps,
            args,
        }
    }
}

fn root_name(path: &str) -> &str {
    path.split(['.', '[']).next().unwrap_or(path)
}

fn check_path_use(used: &PathUse, template_use: &TemplateUse, names: &StepNames<'_>, reader: &mut PlaybookReader) {
    if reader.is_full() || expects_missing(used, template_use) {
        return;
    }
    let name = root_name(&used.path);
    let suffix = used.path.strip_prefix(name).unwrap_or("");
    let second = suffix.strip_prefix('.').map(root_name);
    let range = template_use.to_source_range(&used.range);
    let span = |reader: &PlaybookReader| template_use.node.locate(&reader.source.text, &range);
    match (name, second) {
        ("iter", Some(key)) if !names.has_iter(key) => {
            check_iter_key(key, span(reader), names, reader);
        }
        ("steps", Some(step)) if !names.shared.steps.contains(step) => {
            check_step_name(step, span(reader), names, reader);
        }
        ("outcome" | "output", _) if !template_use.site.has_outcome() => {
            let advice = "it is available in rules, `set` and conditions";
            report_unavailable(name, span(reader), advice, reader);
        }
        ("event", _) if !template_use.site.has_event() => {
            let advice = "it is available in conditions and admission rules";
            report_unavailable(name, span(reader), advice, reader);
        }
        _ if used.guarded || is_defined(name, names) => {}
        _ => check_bare_name(name, span(reader), names, reader),
    }
}

fn is_defined(name: &str, names: &StepNames<'_>) -> bool {
    names.is_open
        || name.starts_with('_')
        || RESERVED.contains(&name)
        || BUILT_IN.contains(&name)
        || names.shared.names.contains(name)
        || names.bare_names.contains(name)
}

fn report_unavailable(name: &str, span: Span, advice: &str, reader: &mut PlaybookReader) {
    let message = format!("`{name}` is not available here");
    reader.report_error("T0202", message, span, advice);
}

fn check_iter_key(key: &str, span: Span, names: &StepNames<'_>, reader: &mut PlaybookReader) {
    let mut scope: Vec<String> = names.iter.iter().map(|name| format!("iter.{name}")).collect();
    if names.step.loop_.is_some() {
        scope.push("iter.index".to_owned());
    }
    let label = if scope.is_empty() {
        format!("step `{}` has no loop and writes no `iter`", names.step.name)
    } else {
        format!("in scope: {}", scope.join(", "))
    };
    reader.report_error("T0201", format!("`iter.{key}` is not defined here"), span, label);
}

fn check_step_name(name: &str, span: Span, names: &StepNames<'_>, reader: &mut PlaybookReader) {
    let steps = &names.shared.steps;
    let label = match reader.suggest(name, steps.iter().copied()) {
        Some(suggestion) => format!("did you mean `steps.{suggestion}`?"),
        None => "no step has this name".to_owned(),
    };
    reader.report_error(
        "T0203",
        format!("`steps.{name}` refers to a step that does not exist"),
        span,
        label,
    );
}

fn check_bare_name(name: &str, span: Span, step_names: &StepNames<'_>, reader: &mut PlaybookReader) {
    let names = step_names.shared.names.iter().chain(&step_names.bare_names).copied();
    report_undefined(name, span, names, reader);
}

fn report_undefined<'a>(name: &str, span: Span, names: impl Iterator<Item = &'a str>, reader: &mut PlaybookReader) {
    let label = match reader.suggest(name, names) {
        Some(suggestion) => format!("did you mean `{suggestion}`?"),
        None => "pass it with --set, or add a default under `workload`".to_owned(),
    };
    let warning = reader
        .diagnostic("W210", format!("`{name}` is not defined in the playbook"), span)
        .with_label(label);
    reader.report(warning);
}

/// Whether the author expects that the value may be missing: a `default` or a test for being defined follows it. A
/// comparison also accepts a missing value, but comparing a value that is always missing is an error.
fn expects_missing(used: &PathUse, template_use: &TemplateUse) -> bool {
    let text = template_use.node.as_str().unwrap_or_default();
    let suffix = text
        .get(template_use.to_source_range(&used.range).end..)
        .unwrap_or_default();
    let suffix = suffix.trim_start_matches([')', ' ', '\n']);
    if let Some(filter) = suffix.strip_prefix('|') {
        let filter = filter.trim_start();
        let end = filter.find(|c: char| !c.is_alphanumeric() && c != '_');
        let name = &filter[..end.unwrap_or(filter.len())];
        return matches!(name, "default" | "d");
    }
    let Some(suffix) = suffix.strip_prefix("is ") else {
        return false;
    };
    let suffix = suffix.trim_start();
    let suffix = suffix.strip_prefix("not ").unwrap_or(suffix).trim_start();
    let operators = ["defined", "undefined", "none"];
    operators.iter().any(|operator| suffix.starts_with(operator))
}
