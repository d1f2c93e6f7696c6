//! Parsed playbooks that the parts of one process share.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::diagnostic::Diagnostic;
use crate::playbook::{Playbook, parse};

/// Unused playbooks are removed when there are this many entries, and later whenever the number has doubled.
const ENTRIES_MIN: usize = 64;

/// The parsed playbooks that are in use, by name and text. A command line, a server and a worker in one process share
/// it, so that a playbook is parsed once. Cheap to clone. It does not prevent a playbook from being dropped.
#[derive(Debug, Clone, Default)]
pub struct SharedPlaybooks {
    entries: Arc<Mutex<Entries>>,
}

#[derive(Debug, Default)]
struct Entries {
    by_key: BTreeMap<u64, Weak<Playbook>>,
    /// Number of entries at which unused ones are removed.
    count_max: usize,
}

impl SharedPlaybooks {
    /// Returns the playbook with this name and text: a parsed one that is in use, or a new one. Fails with the
    /// diagnostics of an invalid playbook.
    pub fn parse(&self, name: &str, text: &str) -> Result<Arc<Playbook>, Vec<Diagnostic>> {
        if let Some(playbook) = self.find(name, text) {
            return Ok(playbook);
        }
        let parsed = parse(name, text.as_bytes());
        let playbook = parsed.playbook.ok_or(parsed.diagnostics)?;
        Ok(self.share(playbook))
    }

    /// Adds a playbook for as long as it is in use.
    pub fn share(&self, playbook: Playbook) -> Arc<Playbook> {
        let playbook = Arc::new(playbook);
        let source = &playbook.source;
        let key = hash_key(&source.name, &source.text);
        let mut entries = self.entries();
        if entries.by_key.len() >= entries.count_max {
            entries.by_key.retain(|_, playbook| playbook.strong_count() > 0);
            entries.count_max = (2 * entries.by_key.len()).max(ENTRIES_MIN);
        }
        entries.by_key.insert(key, Arc::downgrade(&playbook));
        playbook
    }

    fn find(&self, name: &str, text: &str) -> Option<Arc<Playbook>> {
        let playbook = self.entries().by_key.get(&hash_key(name, text))?.upgrade()?;
        let source = &playbook.source;
        (*source.name == *name && *source.text == *text).then_some(playbook)
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hash_key(name: &str, text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (name, text).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: a}\nworkflow:\n  - step: start\n    tool: {kind: noop}\n";

    #[test]
    fn a_playbook_in_use_is_not_parsed_again() {
        let playbooks = SharedPlaybooks::default();
        let first = playbooks.parse("a.yaml", TEXT).unwrap();
        let second = playbooks.clone().parse("a.yaml", TEXT).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        let other_name = playbooks.parse("b.yaml", TEXT).unwrap();
        assert_eq!(&*other_name.source.name, "b.yaml");
        assert!(playbooks.parse("a.yaml", "kind: Playbook\n").is_err());
    }

    #[test]
    fn playbooks_that_nothing_uses_are_removed() {
        let playbooks = SharedPlaybooks::default();
        for index in 0..4 * ENTRIES_MIN {
            playbooks.parse(&format!("{index}.yaml"), TEXT).unwrap();
        }
        assert!(playbooks.entries().by_key.len() <= ENTRIES_MIN);
    }
}
