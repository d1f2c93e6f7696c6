//! Reads the whole document.

use std::collections::BTreeMap;

use model::id::PlaybookHash;
use model::source::SourceText;
use sha2::{Digest, Sha256};

use crate::playbook::read::executor::ExecutorSection;
use crate::playbook::read::key_tables::ROOT;
use crate::playbook::read::reader::{CheckedMap, PlaybookReader};
use crate::playbook::read::task::TaskInheritance;
use crate::playbook::read::workbook::Workbook;
use crate::playbook::{Playbook, Step};
use crate::yaml::{Node, NodeValue};

/// The version of the language.
pub(crate) const VERSIONS: &[(&str, ())] = &[("noetl.io/v2", ())];

/// A playbook, possibly incomplete, and its diagnostics.
pub(crate) struct PlaybookDraft {
    pub(crate) playbook: Playbook,
    pub(crate) reader: PlaybookReader,
    /// The nodes of `entry_step` and `final_step`.
    pub(crate) step_names: Vec<(&'static str, Node)>,
}

/// Reads the playbook at `root`.
pub(crate) fn read_playbook(root: &Node, source: &SourceText) -> PlaybookDraft {
    let mut reader = PlaybookReader::new(source.clone());
    let fields = reader.check_map(root, &ROOT, "the playbook");
    reader.check_version(&fields, root);
    let metadata = reader.read_metadata(fields.get("metadata"), root.span);
    let section = match fields.get("executor") {
        Some(executor) => reader.read_executor(executor),
        None => ExecutorSection::default(),
    };
    let keychain = fields.get("keychain");
    let keychain = keychain.map(|node| reader.read_keychain(node)).unwrap_or_default();
    let defaults = reader.read_defaults(fields.get("workload"), fields.get("ctx"));
    let workbook = fields.get("workbook");
    let workbook = workbook.map(|node| reader.read_workbook(node)).unwrap_or_default();
    let steps = reader.read_steps(&fields, root, &section, &workbook);
    reader.check_workbook(&workbook);
    let name = metadata.name.unwrap_or_else(|| "playbook".into());
    let step_nodes = [
        ("entry_step", section.entry_node),
        ("final_step", section.final_step_node),
    ];
    PlaybookDraft {
        playbook: Playbook {
            path: metadata.path.unwrap_or_else(|| name.clone()),
            name,
            version: metadata.version,
            description: metadata.description,
            metadata: metadata.other_keys,
            executor: section.executor,
            keychain,
            workload: defaults.workload,
            ctx: defaults.ctx,
            default_templates: defaults.templates,
            steps: steps.into(),
            source: source.clone(),
            hash: playbook_hash(&source.text),
        },
        reader,
        step_names: step_nodes
            .into_iter()
            .filter_map(|(key, node)| Some((key, node?)))
            .collect(),
    }
}

/// Whether a version is an older name of this language.
fn is_older_version(node: &Node) -> bool {
    matches!(node.as_str(), Some("noetl.io/v1" | "noetl.io/v10"))
}

fn playbook_hash(text: &str) -> PlaybookHash {
    PlaybookHash(hex::encode(Sha256::digest(text.as_bytes())).into())
}

impl PlaybookReader {
    fn check_version(&mut self, fields: &CheckedMap<'_>, root: &Node) {
        match fields.get("apiVersion") {
            Some(version) if is_older_version(version) => {
                let written = version.as_str().unwrap_or_default();
                let message = format!("`{written}` is read as `noetl.io/v2`");
                let note = self.diagnostic("N101", message, version.span);
                self.report(note.with_label("write `noetl.io/v2`"));
            }
            Some(version) => {
                self.read_word(version, "apiVersion", VERSIONS);
            }
            None if root.as_map().is_some() => {
                let example = "apiVersion: noetl.io/v2";
                self.report_missing_key("apiVersion", "the playbook", root.span, example);
            }
            None => {}
        }
    }

    fn read_steps(
        &mut self,
        fields: &CheckedMap<'_>,
        root: &Node,
        section: &ExecutorSection,
        workbook: &Workbook,
    ) -> Vec<Step> {
        let nodes = match fields.get("workflow") {
            Some(Node {
                value: NodeValue::List(nodes),
                ..
            }) => nodes.as_slice(),
            Some(other) => {
                self.report_wrong_type(other, "workflow", "a list of steps");
                return Vec::new();
            }
            None => &[],
        };
        if nodes.is_empty() && !fields.is_misspelled("workflow") {
            let span = fields.entry("workflow").map_or(root.span, |entry| entry.span);
            let label = "add `workflow: [{step: start, tool: {kind: noop}}]`";
            self.report_error("E0123", "the playbook has no steps", span, label);
        }
        let mut steps: Vec<Step> = Vec::new();
        for node in nodes {
            self.step = Some(steps.len());
            let uses = self.uses.len();
            match self.read_step(node, section.defaults.as_ref(), workbook) {
                Some(step) => steps.push(step),
                None => self.uses.truncate(uses),
            }
        }
        self.step = None;
        self.check_unique_steps(&steps);
        steps
    }

    fn check_unique_steps(&mut self, steps: &[Step]) {
        let mut first_spans = BTreeMap::new();
        for step in steps {
            if let Some(first) = first_spans.insert(step.name.clone(), step.span.line) {
                let message = format!("two steps have the name `{}`", step.name);
                let label = format!("first on line {first}; rename one of them");
                self.report_error("E0110", message, step.span, label);
            }
        }
    }

    /// Reads each workbook task once on its own, so that unused ones are checked as well.
    fn check_workbook(&mut self, workbook: &Workbook) {
        let inheritance = TaskInheritance {
            inherited: None,
            workbook,
        };
        for (name, node) in workbook {
            self.read_task(name.as_str().into(), node, &inheritance);
        }
    }
}
