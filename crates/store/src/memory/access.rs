//! Access tokens, the audit log, settings and the outbox, in memory.

use std::collections::BTreeMap;

use model::time::Time;

use crate::access::{AccessId, AuditEntry, AuditRow, OutboxRow, TokenRow, link, sealed};
use crate::commit::Commit;
use crate::store::{BATCH, BATCH_END, has_retention};

pub(super) struct Access {
    pub(super) tokens: BTreeMap<AccessId, TokenRow>,
    pub(super) trail: Vec<AuditRow>,
    pub(super) settings: BTreeMap<String, String>,
    /// Start of a setting's retention; settings without an entry are permanent.
    pub(super) retained_from: BTreeMap<String, Time>,
    outbox: Vec<OutboxRow>,
    position: u64,
}

impl Default for Access {
    fn default() -> Self {
        let secret = (
            "cluster_secret".to_owned(),
            "of a store in memory".to_owned(),
        );
        Self {
            tokens: BTreeMap::new(),
            trail: Vec::new(),
            settings: BTreeMap::from([secret]),
            retained_from: BTreeMap::new(),
            outbox: Vec::new(),
            position: 0,
        }
    }
}

impl Access {
    pub(super) fn audit(&mut self, entry: AuditEntry, at: Time) {
        let before = self.trail.last().map_or(AuditRow::START, |row| row.hash);
        let id = self.trail.len() as u64 + 1;
        let hash = link(&before, &sealed(id, at, &entry));
        self.trail.push(AuditRow {
            id,
            at,
            entry,
            hash,
        });
    }

    pub(super) fn revoke(&mut self, id: AccessId, now: Time) {
        if let Some(token) = self.tokens.get_mut(&id) {
            token.revoked_at.get_or_insert(now);
        }
    }

    pub(super) fn touch(&mut self, id: AccessId, now: Time) {
        if let Some(token) = self.tokens.get_mut(&id) {
            token.last_used_at = Some(now);
        }
    }

    pub(super) fn set_once(&mut self, key: &str, value: &str, now: Time) -> String {
        if has_retention(key) && !self.settings.contains_key(key) {
            self.retained_from.insert(key.to_owned(), now);
        }
        let kept = self.settings.entry(key.to_owned());
        kept.or_insert_with(|| value.to_owned()).clone()
    }

    /// Removes a setting whose retention has passed, and the settings that depend on it.
    pub(super) fn remove_setting(&mut self, key: &str) {
        if let Some(request_id) = key.strip_prefix(BATCH_END) {
            self.settings.remove(&format!("{BATCH}{request_id}"));
        }
        self.settings.remove(key);
        self.retained_from.remove(key);
    }

    /// Adds the events of a commit to the outbox.
    pub(super) fn publish(&mut self, commit: &Commit) {
        if commit.events.is_empty() {
            return;
        }
        self.position += 1;
        self.outbox.push(OutboxRow {
            position: self.position,
            execution: commit.execution,
            seq_first: commit.expected.next(),
            seq_last: commit.version(),
        });
    }

    pub(super) fn waiting(&self, after: u64, limit: usize) -> Vec<OutboxRow> {
        let waiting = self.outbox.iter().filter(|row| row.position > after);
        waiting.take(limit).copied().collect()
    }

    pub(super) fn published(&mut self, upto: u64) {
        self.outbox.retain(|row| row.position > upto);
    }
}
