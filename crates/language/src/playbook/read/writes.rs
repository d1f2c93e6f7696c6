//! `set`, `set_iter`, `set_ctx`: values to write and their targets.

use crate::playbook::read::reader::PlaybookReader;
use crate::playbook::{SetEntry, WriteTarget};
use crate::yaml::{MapEntry, Node};

impl PlaybookReader {
    /// Reads `set`: `ctx.x`, `iter.x` and `step.x` name their target; other names go to `default_target`.
    pub(crate) fn read_writes(&mut self, node: &Node, default_target: WriteTarget) -> Vec<SetEntry> {
        let Some(entries) = node.as_map() else {
            self.report_wrong_type(node, "set", "a map such as `{ctx.count: 1}`");
            return Vec::new();
        };
        let mut writes = Vec::new();
        for entry in entries {
            match parse_write_target(&entry.key) {
                Some((target, "")) if entry.value.as_map().is_some() => {
                    writes.extend(self.read_writes_to(&entry.value, target));
                }
                Some((target, key)) if !key.is_empty() => {
                    writes.push(self.read_set_entry(entry, target, key));
                }
                _ => writes.push(self.read_set_entry(entry, default_target, &entry.key)),
            }
        }
        writes
    }

    /// Reads `set_iter` or `set_ctx`: all keys go to `target`.
    pub(crate) fn read_writes_to(&mut self, node: &Node, target: WriteTarget) -> Vec<SetEntry> {
        let Some(entries) = node.as_map() else {
            self.report_wrong_type(node, "the values to write", "a map of names and values");
            return Vec::new();
        };
        let entries = entries.iter();
        entries
            .map(|entry| self.read_set_entry(entry, target, &entry.key))
            .collect()
    }

    fn read_set_entry(&mut self, entry: &MapEntry, target: WriteTarget, key: &str) -> SetEntry {
        SetEntry {
            target,
            key: key.into(),
            value: self.read_tree(&entry.value),
            span: entry.span,
        }
    }

    /// Returns the writes to `ctx` and rejects others: an arc has no iteration and no pipeline.
    pub(crate) fn accept_ctx_writes(&mut self, writes: Vec<SetEntry>) -> Vec<SetEntry> {
        let (ctx_writes, others): (Vec<_>, Vec<_>) =
            writes.into_iter().partition(|write| write.target == WriteTarget::Ctx);
        for write in others {
            let message = format!("cannot write `{}` here: there is no pipeline", write.key);
            let label = format!("write `ctx.{}`, or write it in a task", write.key);
            self.report_error("E0125", message, write.span, label);
        }
        ctx_writes
    }
}

fn parse_write_target(key: &str) -> Option<(WriteTarget, &str)> {
    let (scope, path) = key.split_once('.').unwrap_or((key, ""));
    let target = match scope {
        "ctx" => WriteTarget::Ctx,
        "iter" => WriteTarget::Iter,
        "step" => WriteTarget::Local,
        _ => return None,
    };
    Some((target, path))
}
