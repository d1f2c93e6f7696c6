//! `set`, `set_iter`, `set_ctx`: values to write and their targets.

use crate::playbook::read::reader::Reader;
use crate::playbook::{Write, WriteTarget};
use crate::yaml::{Entry, Node};

impl Reader {
    /// Reads `set`: `ctx.x`, `iter.x` and `step.x` name their target; plain names go to `bare`.
    pub(crate) fn writes(&mut self, node: &Node, bare: WriteTarget) -> Vec<Write> {
        let Some(entries) = node.as_map() else {
            self.wrong_type(node, "set", "a map such as `{ctx.count: 1}`");
            return Vec::new();
        };
        let mut writes = Vec::new();
        for entry in entries {
            match target(&entry.key) {
                Some((target, "")) if entry.value.as_map().is_some() => {
                    writes.extend(self.writes_to(&entry.value, target));
                }
                Some((target, key)) if !key.is_empty() => {
                    writes.push(self.write(entry, target, key));
                }
                _ => writes.push(self.write(entry, bare, &entry.key)),
            }
        }
        writes
    }

    /// Reads `set_iter` or `set_ctx`: all keys go to `target`.
    pub(crate) fn writes_to(&mut self, node: &Node, target: WriteTarget) -> Vec<Write> {
        let Some(entries) = node.as_map() else {
            self.wrong_type(node, "the values to write", "a map of names and values");
            return Vec::new();
        };
        let entries = entries.iter();
        entries
            .map(|entry| self.write(entry, target, &entry.key))
            .collect()
    }

    fn write(&mut self, entry: &Entry, target: WriteTarget, key: &str) -> Write {
        Write {
            target,
            key: key.into(),
            value: self.tree(&entry.value),
            span: entry.span,
        }
    }

    /// Rejects writes to other targets than `ctx`: an arc has no iteration and no pipeline.
    pub(crate) fn only_ctx(&mut self, writes: Vec<Write>) -> Vec<Write> {
        let (kept, other): (Vec<_>, Vec<_>) = writes
            .into_iter()
            .partition(|write| write.target == WriteTarget::Ctx);
        for write in other {
            let message = format!("cannot write `{}` here: there is no pipeline", write.key);
            let label = format!("write `ctx.{}`, or write it in a task", write.key);
            self.error("E0125", message, write.span, label);
        }
        kept
    }
}

fn target(key: &str) -> Option<(WriteTarget, &str)> {
    let (scope, rest) = key.split_once('.').unwrap_or((key, ""));
    let target = match scope {
        "ctx" => WriteTarget::Ctx,
        "iter" => WriteTarget::Iter,
        "step" => WriteTarget::Local,
        _ => return None,
    };
    Some((target, rest))
}
