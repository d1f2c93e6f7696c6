//! Reads a task: its kind, the kind's keys, and its own and inherited `spec`.

use std::collections::BTreeMap;

use model::id::Name;
use model::playbook::ResultControl;

use crate::playbook::kinds::{self, EXTERNAL, KINDS, KeySpec, KindSpec, NOT_BUILT_IN};
use crate::playbook::read::key_tables::{RESOURCES, SANDBOX, TASK, TASK_IGNORED, TASK_REFUSED, TASK_SPEC};
use crate::playbook::read::layers::overlay_layers;
use crate::playbook::read::placement::{ignored_keys, lift_keys, lift_reference};
use crate::playbook::read::programs::CodeTitle;
use crate::playbook::read::reader::{CheckedMap, KeyTable, PlaybookReader};
use crate::playbook::read::template_uses::TemplateSite;
use crate::playbook::read::workbook::Workbook;
use crate::playbook::{Effect, FieldMode, Task, WriteTarget};
use crate::template::Tree;
use crate::yaml::{MapEntry, Node, NodeValue};

pub(crate) const EFFECTS: &[(&str, Effect)] = &[
    ("at_least_once", Effect::AtLeastOnce),
    ("at_most_once", Effect::AtMostOnce),
    ("transactional", Effect::Transactional),
];

/// Levels of the sandbox.
pub(crate) const SANDBOX_LEVELS: &[(&str, ())] = &[("none", ()), ("basic", ()), ("strict", ())];

/// What a task inherits.
pub(crate) struct TaskInheritance<'a> {
    /// The inherited layers of `spec`.
    pub(crate) inherited: Option<&'a Node>,
    /// The workbook tasks.
    pub(crate) workbook: &'a Workbook,
}

type TaskKeys<'a> = Vec<(&'a str, &'a [&'a str])>;

impl PlaybookReader {
    pub(crate) fn read_task(&mut self, label: Name, node: &Node, inheritance: &TaskInheritance<'_>) -> Option<Task> {
        let node = self.expand_named_task(node, inheritance.workbook)?;
        let (name, kind) = self.read_kind(&node)?;
        let title = format!("task `{label}`");
        let (task, spec) = lift_keys(&node, kind);
        let task = self.lift_program(&lift_reference(&task, kind), kind);
        let keys = task_keys(kind, &task);
        let ignored = ignored_keys(kind);
        let shape = KeyTable {
            noun: &name,
            keys: &keys,
            refused: TASK_REFUSED,
            ignored: &ignored,
        };
        let fields = self.check_map(&task, &shape, &title);
        let spec = self.inherit_layers(spec, inheritance);
        let spec_shape = KeyTable {
            noun: "task spec",
            keys: TASK_SPEC,
            refused: &[],
            ignored: TASK_IGNORED,
        };
        let spec_map = self.check_map(&spec, &spec_shape, &format!("spec of {title}"));
        self.check_required_keys(kind, &fields, &title);
        self.site = TemplateSite::Call;
        let mut read = Task {
            label,
            kind: name.as_str().into(),
            fields: self.read_kind_fields(kind, &fields),
            input: self.read_input(&fields),
            knobs: self.read_knobs(&spec_map),
            timeout: self.read_timeout(&fields, &spec_map),
            policy: crate::playbook::Policy::default(),
            set: Vec::new(),
            result: self.read_result_control(&fields, &spec_map),
            effect: self.read_effect(&spec_map),
            pool: spec_map.get("pool").and_then(|pool| self.read_name(pool, "pool")),
            code_line: fields.get("code").map(code_line),
            command_lines: fields.get("command").map(command_lines).unwrap_or_default(),
            span: node.span,
        };
        self.check_code_fields(kind, &fields, &read, &title);
        read.result.selects_in_data = read.kind_spec().selects_in_data;
        if let Some(policy) = spec_map.get("policy") {
            read.policy = self.read_policy(policy);
        }
        self.site = TemplateSite::Outcome;
        if let Some(set) = fields.get("set") {
            read.set = self.read_writes(set, WriteTarget::Local);
        }
        Some(read)
    }

    /// Checks the programs in the fields of a task.
    fn check_code_fields(&mut self, kind: &'static KindSpec, fields: &CheckedMap<'_>, task: &Task, title: &str) {
        for key in kind.keys {
            if let FieldMode::Code(language) = key.mode
                && let (Some(node), Some(code)) = (fields.get(key.name), task.fields.get(key.name))
            {
                let code_title = CodeTitle {
                    key: key.name,
                    title,
                    language,
                };
                self.check_code(node, code, code_title);
            }
        }
    }

    /// Returns the name of the kind and its specification.
    fn read_kind(&mut self, node: &Node) -> Option<(String, &'static KindSpec)> {
        let Some(kind_node) = node.get("kind") else {
            self.report_missing_key("kind", "the task", node.span, "kind: python");
            return None;
        };
        let name = self.read_text(kind_node, "kind")?;
        if let Some(kind) = kinds::find_kind(&name) {
            return Some((kind.name.to_owned(), kind));
        }
        if kinds::is_external(&name) {
            return Some((name, &EXTERNAL));
        }
        let kind_names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
        let list = format!("(kinds: {})", kind_names.join(" "));
        if NOT_BUILT_IN.contains(&name.as_str()) {
            let message = format!("this version does not include kind `{name}`");
            self.report_error("E0109", message, kind_node.span, list);
            return None;
        }
        let names = kind_names.iter().chain(NOT_BUILT_IN).copied();
        let label = match self.suggest(&name, names) {
            Some(suggestion) => format!("did you mean `{suggestion}`?     {list}"),
            None => list,
        };
        self.report_error("E0108", format!("unknown tool kind `{name}`"), kind_node.span, label);
        None
    }

    fn inherit_layers(&mut self, own: Node, inheritance: &TaskInheritance<'_>) -> Node {
        let inherited = inheritance.inherited.filter(|layer| self.may_inherit(layer));
        let span = own.span;
        overlay_layers(inherited.cloned(), Some(own)).unwrap_or_else(|| Node::empty_map(span))
    }

    fn check_required_keys(&mut self, kind: &KindSpec, fields: &CheckedMap<'_>, title: &str) {
        for key in kind.keys.iter().filter(|key| key.is_required) {
            if fields.get(key.name).is_none() && !is_misspelled(key, fields) {
                let title = format!("{title} (kind `{}`)", kind.name);
                self.report_missing_key(key.name, &title, fields.span, &format!("{}: …", key.name));
            }
        }
        let present = |names: &[&'static str]| -> Vec<&'static str> {
            let names = names.iter().copied();
            names.filter(|name| fields.get(name).is_some()).collect()
        };
        let choice = present(kind.one_of);
        let groups = kind.at_most_one_of.iter().map(|group| present(group));
        let conflicting = groups.into_iter().find(|names| names.len() > 1);
        let is_missing = choice.is_empty()
            && !kind.one_of.is_empty()
            && !kind
                .one_of
                .iter()
                .filter_map(|name| kind.key(name))
                .any(|key| is_misspelled(key, fields));
        if is_missing {
            let message = format!("{title} (kind `{}`) lacks a required key", kind.name);
            let label = format!("add one of: {}", kind.one_of.join(" "));
            self.report_error("E0126", message, fields.span, label);
        }
        for names in std::iter::once(choice).chain(conflicting) {
            if let [first, second, ..] = names[..] {
                let message = format!("{title} has both `{first}` and `{second}`");
                let span = fields.entry(second).map_or(fields.span, |entry| entry.span);
                self.report_error("E0126", message, span, "keep one of them");
            }
        }
    }

    fn read_kind_fields(&mut self, kind: &KindSpec, fields: &CheckedMap<'_>) -> BTreeMap<String, Tree> {
        let mut read = BTreeMap::new();
        for (name, entry) in fields.iter() {
            let mode = match kind.key(name) {
                Some(key) => key.mode,
                None if name == "auth" || is_external_key(kind, name) => FieldMode::Value,
                None => continue,
            };
            if !entry.value.is_null() {
                read.insert(name.to_owned(), self.read_field(&entry.value, mode));
            }
        }
        read
    }

    fn read_input(&mut self, fields: &CheckedMap<'_>) -> Option<Tree> {
        let input = fields.get("input")?;
        if input.as_map().is_none() && input.as_str().is_none() {
            self.report_wrong_type(input, "input", "a map");
        }
        Some(self.read_tree(input))
    }

    fn read_knobs(&mut self, spec_map: &CheckedMap<'_>) -> BTreeMap<String, Tree> {
        if let Some(resources) = spec_map.get("resources").filter(|node| node.as_map().is_some()) {
            self.check_map(resources, &RESOURCES, "`resources`");
        }
        if let Some(sandbox) = spec_map.get("sandbox") {
            self.check_sandbox(sandbox);
        }
        let mut read = BTreeMap::new();
        for name in ["retry", "sandbox", "resources", "isolate"] {
            if let Some(node) = spec_map.get(name) {
                read.insert(name.to_owned(), self.read_tree(node));
            }
        }
        read
    }

    /// Checks a level, or a map with a level and permissions. The worker checks values of templates.
    fn check_sandbox(&mut self, sandbox: &Node) {
        let level = match &sandbox.value {
            NodeValue::Map(_) => {
                self.check_map(sandbox, &SANDBOX, "`sandbox`");
                sandbox.get("level")
            }
            _ => Some(sandbox),
        };
        let Some(level) = level.filter(|level| level.as_str().is_some_and(|text| !text.contains("{{"))) else {
            return;
        };
        self.read_word(level, "sandbox", SANDBOX_LEVELS);
    }

    fn read_effect(&mut self, spec_map: &CheckedMap<'_>) -> Effect {
        let effect = spec_map.get("effect");
        effect
            .and_then(|effect| self.read_word(effect, "effect", EFFECTS))
            .unwrap_or_default()
    }

    fn read_timeout(&mut self, fields: &CheckedMap<'_>, spec_map: &CheckedMap<'_>) -> Option<Tree> {
        let entry = fields.entry("timeout").or(spec_map.entry("timeout"))?;
        if &*entry.key != "timeout" {
            let message = format!("the name `{}` contains a unit", entry.key);
            let warning = self
                .diagnostic("W304", message, entry.span)
                .with_label("write `timeout: 30s`");
            self.report(warning);
        }
        let node = &entry.value;
        if &*entry.key == "timeout_ms"
            && let NodeValue::Number(number) = &node.value
        {
            return Some(Tree::Literal(format!("{number}ms").into()));
        }
        match node.as_map() {
            Some(parts) => self.read_timeout_parts(node, parts),
            None => self.read_delay(node, "timeout"),
        }
    }

    fn read_timeout_parts(&mut self, node: &Node, parts: &[MapEntry]) -> Option<Tree> {
        let keys: &[(&str, &[&str])] = &[("connect", &[]), ("read", &[]), ("total", &[])];
        let shape = KeyTable {
            noun: "timeout",
            keys,
            refused: &[],
            ignored: &[],
        };
        self.check_map(node, &shape, "timeout");
        let parts = parts.iter();
        let mut read = Vec::new();
        for part in parts {
            read.push((part.key.to_string(), self.read_delay(&part.value, &part.key)?));
        }
        Some(Tree::Map(read))
    }

    /// Merges `output` and `output_select` of the task over `spec.result`.
    fn read_result_control(&mut self, fields: &CheckedMap<'_>, spec_map: &CheckedMap<'_>) -> ResultControl {
        let node = overlay_layers(spec_map.get("result").cloned(), fields.get("output").cloned());
        let mut control = node.map(|node| self.read_result(&node)).unwrap_or_default();
        if let Some(select) = fields.entry("output_select") {
            control.select = self.read_select(select);
        }
        control
    }
}

fn is_misspelled(key: &KeySpec, fields: &CheckedMap<'_>) -> bool {
    let mut spellings = key.aliases.iter().chain([&key.name]);
    spellings.any(|name| fields.is_misspelled(name))
}

/// Whether a key is an external tool's own: it is not a key that all tasks accept.
fn is_external_key(kind: &KindSpec, key: &str) -> bool {
    let is_tasks = |(name, aliases): &(&str, &[&str])| *name == key || aliases.contains(&key);
    kind == &EXTERNAL
        && key != "name"
        && !TASK.iter().any(is_tasks)
        && !TASK_REFUSED.iter().any(|(name, _)| *name == key)
}

fn task_keys<'n>(kind: &'static KindSpec, task: &'n Node) -> TaskKeys<'n> {
    let own = kind.keys.iter().map(|key| (key.name, key.aliases));
    let mut keys: TaskKeys<'n> = own.collect();
    let extra_keys = task.as_map().unwrap_or_default().iter();
    let extra_keys = extra_keys.filter(|entry| is_external_key(kind, &entry.key));
    keys.extend(extra_keys.map(|entry| (&*entry.key, &[] as &[&str])));
    for (name, aliases) in TASK {
        let aliases: &'static [&'static str] = match (*name, kind.name) {
            ("input", "playbook") => &["args", "payload"],
            // For a container, `args` are the arguments of its command, so the key is no alias of `input`.
            ("input", "container") => &[],
            _ => aliases,
        };
        keys.push((name, aliases));
    }
    if kind.key("name").is_none() {
        keys.push(("name", &[]));
    }
    keys
}

/// The lines on which the texts of a command start; a command may be a list of texts.
fn command_lines(node: &Node) -> Vec<u32> {
    match &node.value {
        NodeValue::List(items) => items.iter().map(code_line).collect(),
        _ => vec![code_line(node)],
    }
}

/// The line on which a code block starts. A block starts at its first line that is not blank.
fn code_line(node: &Node) -> u32 {
    let text = node.as_str().unwrap_or_default();
    let blank = text.bytes().take_while(|byte| *byte == b'\n').count();
    let blank = u32::try_from(blank).unwrap_or(0);
    node.span.line.saturating_sub(blank)
}
