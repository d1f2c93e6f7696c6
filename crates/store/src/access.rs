//! Who may ask and what was asked: tokens, the audit trail, and what waits to be published.

use std::fmt;

use model::id::{CommandId, ExecutionId, LeaseEpoch, Name, Seq};
use model::raw::Raw;
use model::time::Time;
use serde::{Deserialize, Serialize};
use sha2::Digest as _;

use crate::rows::OwnerId;

/// One access token, by which it is revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccessId(pub i64);

impl fmt::Display for AccessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// An access token as it is kept: never the token itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRow {
    /// Which.
    pub id: AccessId,
    /// What people call it.
    pub name: String,
    /// The sha256 of the token.
    pub hash: [u8; 32],
    /// What its holder may do.
    pub role: Name,
    /// When it was made.
    pub created_at: Time,
    /// From when on it is refused.
    pub expires_at: Option<Time>,
    /// When it was shown last.
    pub last_used_at: Option<Time>,
    /// When it was revoked.
    pub revoked_at: Option<Time>,
}

/// How something that was asked for ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditOutcome {
    /// It was done.
    Done,
    /// It was not allowed.
    Denied,
    /// It was allowed and failed.
    Failed,
}

/// Something that someone asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Who: a token's name, a worker, the server itself.
    pub actor: String,
    /// What, in the server's own words.
    pub action: Name,
    /// To what.
    pub resource: String,
    /// How it ended.
    pub outcome: AuditOutcome,
    /// From which address.
    pub source: Option<String>,
    /// What else is worth knowing; never a secret.
    pub detail: Option<Raw>,
}

/// An entry of the audit trail.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditRow {
    /// Its place, from 1.
    pub id: u64,
    /// When, by the store's clock.
    pub at: Time,
    /// What.
    pub entry: AuditEntry,
    /// Covers the hash before it and everything of this row.
    pub hash: [u8; 32],
}

impl AuditRow {
    /// The hash before the first entry.
    pub const START: [u8; 32] = [0; 32];

    /// Whether this row stands as it was written, right after the one with hash `before`.
    pub fn follows(&self, before: &[u8; 32]) -> bool {
        self.hash == link(before, &sealed(self.id, self.at, &self.entry))
    }
}

/// The text that a row's hash covers.
pub(crate) fn sealed(id: u64, at: Time, entry: &AuditEntry) -> String {
    let entry = serde_json::to_string(entry).expect("plain data serialises to JSON");
    format!("{id} {} {entry}", at.0)
}

/// The hash of a text that comes after another.
pub(crate) fn link(before: &[u8; 32], text: &str) -> [u8; 32] {
    let mut hash = sha2::Sha256::new();
    hash.update(before);
    hash.update(text.as_bytes());
    hash.finalize().into()
}

/// A command in a worker's hands, and how its execution stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The command.
    pub command: CommandId,
    /// The claim.
    pub lease_epoch: LeaseEpoch,
    /// Whether its execution is paused.
    pub paused: bool,
    /// Whether its execution is being cancelled, or is over.
    pub cancelling: bool,
    /// When it was handed out.
    pub claimed_at: Time,
}

/// A process that uses the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Which.
    pub owner: OwnerId,
    /// The URL under which it is reached.
    pub address: Option<String>,
    /// Whether it lives.
    pub alive: bool,
}

/// An append that waits to be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutboxRow {
    /// Its place in the order of publication; appends of one transaction may share it.
    pub position: u64,
    /// Whose log.
    pub execution: ExecutionId,
    /// The first event.
    pub seq_first: Seq,
    /// The last event.
    pub seq_last: Seq,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_entry_no_longer_follows() {
        let entry = AuditEntry {
            actor: "ann".to_owned(),
            action: "token.revoke".into(),
            resource: "7".to_owned(),
            outcome: AuditOutcome::Done,
            source: None,
            detail: None,
        };
        let hash = link(&AuditRow::START, &sealed(1, Time(5), &entry));
        let mut row = AuditRow {
            id: 1,
            at: Time(5),
            entry,
            hash,
        };
        assert!(row.follows(&AuditRow::START));
        assert!(!row.follows(&[1; 32]));
        row.entry.actor = "bob".to_owned();
        assert!(!row.follows(&AuditRow::START));
    }
}
