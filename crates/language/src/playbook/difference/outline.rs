//! Breaks a playbook down into parts that can be compared: each has values and smaller parts.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use model::id::Name;
use model::playbook::{FailureMode, ResultControl, RouteMode};
use model::source::Span;
use serde::Serialize;
use serde_json::Value;

use crate::playbook::difference::change::PlaybookSection;
use crate::playbook::difference::value::PlaybookValue;
use crate::playbook::{
    Admission, AdmitMode, Collection, Effect, JumpTarget, KeychainEntry, KeychainKind, KeychainScope, Loop, NetArc,
    Playbook, Policy, PolicyRule, Section, SetEntry, Step, Task, UnmatchedAction, WriteTarget,
};
use crate::template::{Template, Tree};

/// A part of a playbook.
#[derive(Debug)]
pub(super) struct PlaybookPart {
    /// Identifies it among the parts with the same parent.
    pub(super) key: String,
    /// Its path in the playbook; empty for the playbook itself.
    pub(super) path: String,
    pub(super) section: PlaybookSection,
    pub(super) step: Option<Name>,
    pub(super) task: Option<Name>,
    /// The bytes of the text in which it is.
    pub(super) range: Range<u32>,
    pub(super) values: Vec<PartValue>,
    pub(super) lists: Vec<PartList>,
}

/// A value of a part.
#[derive(Debug)]
pub(super) struct PartValue {
    pub(super) section: PlaybookSection,
    /// Its path in the part.
    pub(super) path: Vec<String>,
    pub(super) value: PlaybookValue,
}

/// Smaller parts of one kind.
#[derive(Debug)]
pub(super) struct PartList {
    /// The path of the list in the part.
    pub(super) path: &'static str,
    pub(super) section: PlaybookSection,
    pub(super) parts: Vec<PlaybookPart>,
    pub(super) is_ordered: bool,
    /// Whether a part without a counterpart is compared with the part at the same index.
    pub(super) pairs_by_index: bool,
}

impl PlaybookPart {
    fn new(section: PlaybookSection, range: Range<u32>) -> Self {
        Self {
            key: String::new(),
            path: String::new(),
            section,
            step: None,
            task: None,
            range,
            values: Vec::new(),
            lists: Vec::new(),
        }
    }

    /// A part of this part, with a path that continues its path.
    fn new_inner(&self, section: PlaybookSection, key: String, path: &str, span: Span) -> Self {
        Self {
            key,
            path: format!("{}{path}", self.path),
            step: self.step.clone(),
            task: self.task.clone(),
            ..Self::new(section, span.start..span.end.max(span.start + 1).min(self.range.end))
        }
    }

    fn add(&mut self, section: PlaybookSection, path: &str, value: PlaybookValue) {
        let path: Vec<String> = path.split('.').map(str::to_owned).collect();
        self.add_flattened(section, path, value);
    }

    /// Adds the entries of a map as values of their own.
    fn add_flattened(&mut self, section: PlaybookSection, path: Vec<String>, value: PlaybookValue) {
        match value {
            PlaybookValue::Map(entries) if !entries.is_empty() => {
                for (key, value) in entries {
                    let path = path.iter().cloned().chain([key]).collect();
                    self.add_flattened(section, path, value);
                }
            }
            value => self.values.push(PartValue { section, path, value }),
        }
    }

    fn add_text(&mut self, section: PlaybookSection, path: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.add(section, path, PlaybookValue::text(text));
        }
    }

    /// Adds a setting, unless it has its default.
    fn add_setting<T: Serialize + Default + PartialEq>(&mut self, section: PlaybookSection, path: &str, value: &T) {
        if *value != T::default() {
            let value = serde_json::to_value(value).unwrap_or_default();
            self.add(section, path, PlaybookValue::from_data(&value));
        }
    }

    fn add_tree(&mut self, section: PlaybookSection, path: &str, tree: Option<&Tree>) {
        if let Some(tree) = tree {
            self.add(section, path, PlaybookValue::from_tree(tree));
        }
    }

    fn add_template(&mut self, section: PlaybookSection, path: &str, template: Option<&Template>) {
        if let Some(template) = template {
            self.add(section, path, PlaybookValue::Template(template.source().to_owned()));
        }
    }

    fn add_duration(&mut self, section: PlaybookSection, path: &str, duration: Option<Duration>) {
        if let Some(duration) = duration {
            self.add(section, path, PlaybookValue::text(&format!("{duration:?}")));
        }
    }

    fn add_writes(&mut self, section: PlaybookSection, path: &str, writes: &[SetEntry]) {
        for write in writes {
            let target = match write.target {
                WriteTarget::Iter => "iter",
                WriteTarget::Ctx => "ctx",
                WriteTarget::Local => "step",
            };
            let key = format!("{target}.{}", write.key);
            let path = path.split('.').map(str::to_owned).chain([key]).collect();
            self.add_flattened(section, path, PlaybookValue::from_tree(&write.value));
        }
    }
}

/// Breaks a playbook down.
pub(super) fn outline_playbook(playbook: &Playbook) -> PlaybookPart {
    let length = u32::try_from(playbook.source.text.len()).unwrap_or(u32::MAX);
    let mut root = PlaybookPart::new(PlaybookSection::Metadata, 0..length);
    add_head(&mut root, playbook);
    add_defaults(&mut root, playbook, Section::Workload);
    add_defaults(&mut root, playbook, Section::Ctx);
    let keychain = playbook
        .keychain
        .iter()
        .map(|entry| outline_keychain_entry(&root, entry));
    let keychain = keychain.collect();
    let starts: BTreeSet<u32> = playbook.steps.iter().map(|step| step.span.start).collect();
    let steps = playbook.steps.iter().map(|step| {
        let end = starts.range(step.span.start + 1..).next().copied();
        outline_step(step, step.span.start..end.unwrap_or(length))
    });
    let steps = steps.collect();
    let unordered = |path, section, parts| PartList {
        path,
        section,
        parts,
        is_ordered: false,
        pairs_by_index: false,
    };
    // Entries may use earlier ones, so their order cannot be changed without changing a value.
    root.lists
        .push(unordered("keychain", PlaybookSection::Keychain, keychain));
    root.lists.push(unordered("workflow", PlaybookSection::Step, steps));
    root
}

fn add_head(root: &mut PlaybookPart, playbook: &Playbook) {
    let section = PlaybookSection::Metadata;
    root.add_text(section, "metadata.name", Some(playbook.name.as_str()));
    root.add_text(section, "metadata.path", Some(playbook.path.as_str()));
    root.add_text(section, "metadata.version", playbook.version.as_deref());
    root.add_text(section, "metadata.description", playbook.description.as_deref());
    for (key, value) in &playbook.metadata {
        let path = vec!["metadata".to_owned(), key.clone()];
        root.add_flattened(section, path, PlaybookValue::from_data(value));
    }
    let section = PlaybookSection::Executor;
    let executor = &playbook.executor;
    root.add_text(section, "executor.spec.pool", Some(executor.pool.as_str()));
    // The first step is the entry unless another one is named.
    root.add_text(
        section,
        "executor.spec.entry_step",
        Some(playbook.entry().name.as_str()),
    );
    root.add_text(
        section,
        "executor.spec.final_step",
        executor.final_step.as_ref().map(Name::as_str),
    );
    root.add_setting(section, "executor.spec.no_next_is_error", &executor.no_next_is_error);
    root.add_setting(section, "executor.spec.policy.failure.mode", &executor.failure);
    root.add_setting(
        section,
        "executor.spec.policy.limits.max_payload_bytes",
        &executor.payload_bytes_max,
    );
    root.add_setting(
        section,
        "executor.spec.policy.limits.max_step_runs",
        &executor.step_runs_max,
    );
}

fn add_defaults(root: &mut PlaybookPart, playbook: &Playbook, defaults: Section) {
    let (section, entries) = match defaults {
        Section::Workload => (PlaybookSection::Workload, &playbook.workload),
        Section::Ctx => (PlaybookSection::Ctx, &playbook.ctx),
    };
    if entries.is_empty() {
        return;
    }
    let mut value = PlaybookValue::from_data(&Value::Object(entries.clone()));
    for default in playbook
        .default_templates
        .iter()
        .filter(|default| default.section == defaults)
    {
        value.insert_template(&default.path, default.template.source());
    }
    root.add(section, defaults.name(), value);
}

fn outline_keychain_entry(root: &PlaybookPart, entry: &KeychainEntry) -> PlaybookPart {
    let section = PlaybookSection::Keychain;
    let path = format!("keychain.{}", entry.name);
    let mut part = root.new_inner(section, entry.name.to_string(), &path, entry.span);
    let kind = match entry.kind {
        KeychainKind::Credential => "credential",
        KeychainKind::Static => "static",
        KeychainKind::Env => "env",
        KeychainKind::File => "file",
        KeychainKind::Token => "token",
        KeychainKind::Vault => "vault",
    };
    let scope = match entry.scope {
        KeychainScope::Local => None,
        KeychainScope::Shared => Some("shared"),
        KeychainScope::Global => Some("global"),
    };
    part.add_text(section, "kind", Some(kind));
    part.add_text(section, "scope", scope);
    for (key, tree) in &entry.fields {
        part.add_flattened(section, vec![key.clone()], PlaybookValue::from_tree(tree));
    }
    part
}

fn outline_step(step: &Step, range: Range<u32>) -> PlaybookPart {
    let section = PlaybookSection::Step;
    let mut part = PlaybookPart {
        key: step.name.to_string(),
        path: step.name.to_string(),
        step: Some(step.name.clone()),
        ..PlaybookPart::new(section, range)
    };
    part.add_text(section, "desc", step.desc.as_deref());
    part.add_tree(section, "input", step.input.as_ref());
    if !step.is_joining {
        part.add_text(section, "spec.join", Some("each"));
    }
    part.add_duration(section, "spec.timeout", step.timeout);
    part.add_duration(section, "spec.schedule_to_start", step.schedule_to_start);
    if step.failure != FailureMode::FailFast {
        part.add_setting(section, "spec.policy.failure.mode", &Some(step.failure));
    }
    add_admission(&mut part, &step.admission);
    if let Some(loop_) = &step.loop_ {
        add_loop(&mut part, loop_);
    }
    part.add_writes(section, "set", &step.set);
    let tasks = step.tasks.iter().map(|task| outline_task(&part, task, "/")).collect();
    part.lists.push(PartList {
        path: "tool",
        section: PlaybookSection::Task,
        parts: tasks,
        is_ordered: true,
        pairs_by_index: false,
    });
    add_arcs(&mut part, step);
    part
}

fn add_admission(part: &mut PlaybookPart, admission: &Admission) {
    let section = PlaybookSection::Admission;
    if admission.mode == AdmitMode::Inclusive {
        part.add_text(section, "spec.policy.admit.mode", Some("inclusive"));
    }
    let rules = admission.rules.iter().enumerate().map(|(index, rule)| {
        let key = rule.when.as_ref().map_or("else", Template::source).to_owned();
        let mut inner = part.new_inner(section, key, &format!(".spec.policy.admit.rules[{index}]"), rule.span);
        inner.add_template(section, "when", rule.when.as_ref());
        inner.add(section, "then.allow", PlaybookValue::Data(Value::Bool(rule.allow)));
        inner
    });
    let rules = number_keys(rules.collect());
    part.lists.push(ordered("spec.policy.admit.rules", section, rules));
}

fn add_loop(part: &mut PlaybookPart, loop_: &Loop) {
    let section = PlaybookSection::Loop;
    match &loop_.collection {
        Collection::In(items) => part.add_tree(section, "loop.in", Some(items)),
        Collection::Cursor(claim) => {
            let tasks = claim
                .step
                .tasks
                .iter()
                .map(|task| outline_task(part, task, ".loop.cursor "));
            let tasks = tasks.collect();
            part.lists.push(ordered("loop.cursor", section, tasks));
        }
    }
    part.add_text(section, "loop.iterator", Some(loop_.iterator.as_str()));
    part.add_setting(section, "loop.spec.mode", &loop_.mode);
    part.add_tree(section, "loop.spec.max_in_flight", loop_.max_in_flight.as_ref());
    if loop_.is_local {
        part.add_text(section, "loop.spec.policy.exec", Some("local"));
    }
}

fn outline_task(step: &PlaybookPart, task: &Task, separator: &str) -> PlaybookPart {
    let section = PlaybookSection::Task;
    let label = task.label.to_string();
    let mut part = step.new_inner(section, label, &format!("{separator}{}", task.label), task.span);
    part.task = Some(task.label.clone());
    part.add_text(section, "kind", Some(task.kind.as_str()));
    part.add_tree(section, "input", task.input.as_ref());
    for (key, tree) in &task.fields {
        part.add_flattened(section, vec![key.clone()], PlaybookValue::from_tree(tree));
    }
    for (key, tree) in &task.knobs {
        let path = vec!["spec".to_owned(), key.clone()];
        part.add_flattened(section, path, PlaybookValue::from_tree(tree));
    }
    part.add_tree(section, "spec.timeout", task.timeout.as_ref());
    let effect = match task.effect {
        Effect::AtLeastOnce => None,
        Effect::AtMostOnce => Some("at_most_once"),
        Effect::Transactional => Some("transactional"),
    };
    part.add_text(section, "spec.effect", effect);
    part.add_text(section, "spec.pool", task.pool.as_ref().map(Name::as_str));
    part.add_writes(section, "set", &task.set);
    add_result(&mut part, &task.result);
    add_policy(&mut part, &task.policy);
    part
}

fn add_result(part: &mut PlaybookPart, result: &ResultControl) {
    let section = PlaybookSection::Task;
    part.add_setting(section, "spec.result.inline_max_bytes", &result.inline_bytes_max);
    part.add_setting(section, "spec.result.preview_max_bytes", &result.preview_bytes_max);
    part.add_text(section, "spec.result.store", result.store.as_ref().map(Name::as_str));
    part.add_setting(section, "spec.result.scope", &result.scope);
    part.add_duration(section, "spec.result.ttl", result.ttl);
    for entry in &result.select {
        let path = ["spec", "result", "select", entry.name.as_str()].map(str::to_owned);
        part.add_flattened(section, path.to_vec(), PlaybookValue::text(&entry.path));
    }
    part.add_text(
        section,
        "spec.result.compression",
        result.compression.as_ref().map(Name::as_str),
    );
    if let Some(accumulate) = &result.accumulate {
        let strategy = serde_json::to_value(accumulate.strategy).unwrap_or_default();
        let path = "spec.result.accumulate.strategy";
        part.add(section, path, PlaybookValue::Data(strategy));
        part.add_text(
            section,
            "spec.result.accumulate.merge_path",
            accumulate.merge_path.as_deref(),
        );
    }
}

fn add_policy(part: &mut PlaybookPart, policy: &Policy) {
    let section = PlaybookSection::Policy;
    if policy.unmatched != UnmatchedAction::default() {
        part.add_text(section, "spec.policy.on_unmatched", Some("fail"));
    }
    let rules = policy.rules.iter().enumerate();
    let rules = rules.map(|(index, rule)| outline_rule(part, index, rule)).collect();
    part.lists
        .push(ordered("spec.policy.rules", section, number_keys(rules)));
}

fn outline_rule(task: &PlaybookPart, index: usize, rule: &PolicyRule) -> PlaybookPart {
    let section = PlaybookSection::Policy;
    let key = rule.when.as_ref().map_or("else", Template::source).to_owned();
    let mut part = task.new_inner(section, key, &format!(".spec.policy.rules[{index}]"), rule.span);
    let action = &rule.action;
    part.add_template(section, "when", rule.when.as_ref());
    let directive = serde_json::to_value(action.directive).unwrap_or_default();
    part.add(section, "then.do", PlaybookValue::Data(directive));
    part.add_tree(section, "then.attempts", action.retry.attempts.as_ref());
    part.add_setting(section, "then.backoff", &action.retry.backoff);
    part.add_tree(section, "then.delay", action.retry.delay.as_ref());
    match &action.to {
        Some(JumpTarget::Label(label)) => part.add_text(section, "then.to", Some(label.as_str())),
        Some(JumpTarget::Previous) => part.add_text(section, "then.to", Some("previous")),
        Some(JumpTarget::Template(template)) => part.add_template(section, "then.to", Some(template)),
        None => {}
    }
    part.add_writes(section, "then.set", &action.writes);
    part
}

fn add_arcs(part: &mut PlaybookPart, step: &Step) {
    let section = PlaybookSection::Next;
    part.add_setting(section, "next.spec.mode", &step.next.mode);
    part.add_setting(section, "next.spec.no_match_is_error", &step.next.no_match_is_error);
    let arcs = number_keys(step.next.arcs.iter().map(|arc| outline_arc(part, arc)).collect());
    part.lists.push(PartList {
        // Without conditions that exclude each other, the first arc that matches is followed.
        is_ordered: step.next.mode == RouteMode::Exclusive,
        pairs_by_index: false,
        path: "next",
        section,
        parts: arcs,
    });
}

fn outline_arc(step: &PlaybookPart, arc: &NetArc) -> PlaybookPart {
    let section = PlaybookSection::Next;
    let key = arc.step.to_string();
    let mut part = step.new_inner(section, key, &format!(".next[{}]", arc.step), arc.span);
    // The position of an arc is that of its target; its other keys follow.
    part.range.end = step.range.end;
    part.add_template(section, "when", arc.when.as_ref());
    part.add_tree(section, "args", arc.args.as_ref());
    part.add_writes(section, "set", &arc.set);
    part
}

fn ordered(path: &'static str, section: PlaybookSection, parts: Vec<PlaybookPart>) -> PartList {
    PartList {
        path,
        section,
        parts,
        is_ordered: true,
        pairs_by_index: true,
    }
}

/// Makes the keys of parts with equal conditions or targets differ by a number.
fn number_keys(mut parts: Vec<PlaybookPart>) -> Vec<PlaybookPart> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for part in &mut parts {
        let count = counts.entry(part.key.clone()).or_default();
        *count += 1;
        if *count > 1 {
            part.key = format!("{} #{count}", part.key);
        }
    }
    parts
}
