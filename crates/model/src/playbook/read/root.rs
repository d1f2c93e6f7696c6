//! Reads the whole document.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use crate::id::PlaybookHash;
use crate::playbook::read::executor::Settings;
use crate::playbook::read::reader::{Fields, Reader};
use crate::playbook::read::shapes::ROOT;
use crate::playbook::read::task::Home;
use crate::playbook::read::workbook::Workbook;
use crate::playbook::{Playbook, Step};
use crate::source::Source;
use crate::yaml::{Node, Value};

/// A playbook, possibly incomplete, and its diagnostics.
pub(crate) struct Draft {
    pub(crate) playbook: Playbook,
    pub(crate) reader: Reader,
    /// The nodes of `entry_step` and `final_step`.
    pub(crate) named: Vec<(&'static str, Node)>,
}

/// Reads the playbook at `root`.
pub(crate) fn read(root: &Node, source: &Source) -> Draft {
    let mut reader = Reader::new(source.clone());
    let fields = reader.fields(root, &ROOT, "the playbook");
    reader.version(&fields, root);
    let metadata = reader.metadata(fields.get("metadata"), root.span);
    let settings = match fields.get("executor") {
        Some(executor) => reader.executor(executor),
        None => Settings::default(),
    };
    let keychain = fields.get("keychain");
    let keychain = keychain
        .map(|node| reader.keychain(node))
        .unwrap_or_default();
    let defaults = reader.defaults(fields.get("workload"), fields.get("ctx"));
    let book = fields.get("workbook");
    let book = book.map(|node| reader.workbook(node)).unwrap_or_default();
    let steps = reader.steps(&fields, root, &settings, &book);
    reader.check_workbook(&book);
    let name = metadata.name.unwrap_or_else(|| "playbook".into());
    let named = [
        ("entry_step", settings.entry),
        ("final_step", settings.last),
    ];
    Draft {
        playbook: Playbook {
            path: metadata.path.unwrap_or_else(|| name.clone()),
            name,
            version: metadata.version,
            description: metadata.description,
            metadata: metadata.rest,
            executor: settings.executor,
            keychain,
            workload: defaults.workload,
            ctx: defaults.ctx,
            default_templates: defaults.templates,
            steps: steps.into(),
            source: source.clone(),
            hash: hash(&source.text),
        },
        reader,
        named: named
            .into_iter()
            .filter_map(|(key, node)| Some((key, node?)))
            .collect(),
    }
}

/// Whether a version is an older name of this language.
fn is_older_version(node: &Node) -> bool {
    matches!(node.as_str(), Some("noetl.io/v1" | "noetl.io/v10"))
}

fn hash(text: &str) -> PlaybookHash {
    PlaybookHash(hex::encode(Sha256::digest(text.as_bytes())).into())
}

impl Reader {
    fn version(&mut self, fields: &Fields<'_>, root: &Node) {
        match fields.get("apiVersion") {
            Some(version) if is_older_version(version) => {
                let written = version.as_str().unwrap_or_default();
                let message = format!("`{written}` is read as `noetl.io/v2`");
                let note = self.diagnostic("N101", message, version.span);
                self.report(note.label("write `noetl.io/v2`"));
            }
            Some(version) => {
                self.word(version, "apiVersion", &[("noetl.io/v2", ())]);
            }
            None if root.as_map().is_some() => {
                let example = "apiVersion: noetl.io/v2";
                self.missing("apiVersion", "the playbook", root.span, example);
            }
            None => {}
        }
    }

    fn steps(
        &mut self,
        fields: &Fields<'_>,
        root: &Node,
        settings: &Settings,
        book: &Workbook,
    ) -> Vec<Step> {
        let nodes = match fields.get("workflow") {
            Some(Node {
                value: Value::List(nodes),
                ..
            }) => nodes.as_slice(),
            Some(other) => {
                self.wrong_type(other, "workflow", "a list of steps");
                return Vec::new();
            }
            None => &[],
        };
        if nodes.is_empty() && !fields.is_misspelled("workflow") {
            let span = fields
                .entry("workflow")
                .map_or(root.span, |entry| entry.span);
            let label = "add `workflow: [{step: start, tool: {kind: noop}}]`";
            self.error("E0123", "the playbook has no steps", span, label);
        }
        let mut steps: Vec<Step> = Vec::new();
        for node in nodes {
            self.step = Some(steps.len());
            let uses = self.uses.len();
            match self.step(node, settings.defaults.as_ref(), book) {
                Some(step) => steps.push(step),
                None => self.uses.truncate(uses),
            }
        }
        self.step = None;
        self.unique_steps(&steps);
        steps
    }

    fn unique_steps(&mut self, steps: &[Step]) {
        let mut known = BTreeMap::new();
        for step in steps {
            if let Some(first) = known.insert(step.name.clone(), step.span.line) {
                let message = format!("two steps have the name `{}`", step.name);
                let label = format!("first on line {first}; rename one of them");
                self.error("E0110", message, step.span, label);
            }
        }
    }

    /// Reads each workbook task once on its own, so that unused ones are checked as well.
    fn check_workbook(&mut self, book: &Workbook) {
        let home = Home {
            inherited: None,
            book,
        };
        for (name, node) in book {
            self.task(name.as_str().into(), node, &home);
        }
    }
}
