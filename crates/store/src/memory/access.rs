//! Access tokens, the audit log, settings and the outbox, in memory.

use std::collections::BTreeMap;

use model::time::Time;

use crate::access::{AccessTokenId, AccessTokenRow, AuditEntry, AuditRow, OutboxRow, chain_hash, hashed_text};
use crate::commit::Commit;
use crate::store::{BATCH_END_PREFIX, BATCH_PREFIX, has_retention};

pub(super) struct AdminTables {
    pub(super) tokens: BTreeMap<AccessTokenId, AccessTokenRow>,
    pub(super) audit_trail: Vec<AuditRow>,
    pub(super) settings: BTreeMap<String, String>,
    /// Start of a setting's retention; settings without an entry are permanent.
    pub(super) retained_from: BTreeMap<String, Time>,
    outbox: Vec<OutboxRow>,
    position: u64,
}

impl Default for AdminTables {
    fn default() -> Self {
        let secret = ("cluster_secret".to_owned(), "of a store in memory".to_owned());
        Self {
            tokens: BTreeMap::new(),
            audit_trail: Vec::new(),
            settings: BTreeMap::from([secret]),
            retained_from: BTreeMap::new(),
            outbox: Vec::new(),
            position: 0,
        }
    }
}

impl AdminTables {
    pub(super) fn add_audit_entry(&mut self, entry: AuditEntry, recorded_at: Time) {
        let before = self.audit_trail.last().map_or(AuditRow::START, |row| row.hash);
        let id = self.audit_trail.len() as u64 + 1;
        let hash = chain_hash(&before, &hashed_text(id, recorded_at, &entry));
        self.audit_trail.push(AuditRow {
            id,
            recorded_at,
            entry,
            hash,
        });
    }

    pub(super) fn revoke_token(&mut self, id: AccessTokenId, now: Time) {
        if let Some(token) = self.tokens.get_mut(&id) {
            token.revoked_at.get_or_insert(now);
        }
    }

    pub(super) fn touch_token(&mut self, id: AccessTokenId, now: Time) {
        if let Some(token) = self.tokens.get_mut(&id) {
            token.last_used_at = Some(now);
        }
    }

    pub(super) fn set_once(&mut self, key: &str, value: &str, now: Time) -> String {
        if has_retention(key) && !self.settings.contains_key(key) {
            self.retained_from.insert(key.to_owned(), now);
        }
        let current = self.settings.entry(key.to_owned());
        current.or_insert_with(|| value.to_owned()).clone()
    }

    /// Removes a setting whose retention has passed, and the settings that depend on it.
    pub(super) fn remove_setting(&mut self, key: &str) {
        if let Some(request_id) = key.strip_prefix(BATCH_END_PREFIX) {
            self.settings.remove(&format!("{BATCH_PREFIX}{request_id}"));
        }
        self.settings.remove(key);
        self.retained_from.remove(key);
    }

    /// Adds the events of a commit to the outbox.
    pub(super) fn add_to_outbox(&mut self, commit: &Commit) {
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

    pub(super) fn outbox_after(&self, after: u64, limit: usize) -> Vec<OutboxRow> {
        let waiting = self.outbox.iter().filter(|row| row.position > after);
        waiting.take(limit).copied().collect()
    }

    pub(super) fn remove_published(&mut self, upto: u64) {
        self.outbox.retain(|row| row.position > upto);
    }
}
