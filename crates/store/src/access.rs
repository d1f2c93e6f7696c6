//! Access tokens, the audit log, commands held by workers, processes of the store, and the outbox of events to
//! publish.

use std::fmt;

use model::command::ClaimId;
use model::id::{ExecutionId, Name, Seq};
use model::raw::RawJson;
use model::time::Time;
use serde::{Deserialize, Serialize};
use sha2::Digest as _;

use crate::rows::OwnerId;

/// The ID of an access token, which revokes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccessTokenId(pub i64);

impl fmt::Display for AccessTokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// An access token as stored: its hash, never the token itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessTokenRow {
    /// The token's ID.
    pub id: AccessTokenId,
    /// The display name.
    pub name: String,
    /// The sha256 of the token.
    pub hash: [u8; 32],
    /// The role, which determines the permissions.
    pub role: Name,
    /// Creation time.
    pub created_at: Time,
    /// Expiry time.
    pub expires_at: Option<Time>,
    /// Time of last use.
    pub last_used_at: Option<Time>,
    /// Time of revocation.
    pub revoked_at: Option<Time>,
}

/// The outcome of an audited request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditOutcome {
    /// The request succeeded.
    Done,
    /// The request was not permitted.
    Denied,
    /// The request was permitted and failed.
    Failed,
}

/// A request to be recorded in the audit log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// The requester: a token's name, a worker, or the server itself.
    pub actor: String,
    /// The action, as the server names it.
    pub action: Name,
    /// The resource that the action applies to.
    pub resource: String,
    /// The outcome.
    pub outcome: AuditOutcome,
    /// The network address of the requester.
    pub source: Option<String>,
    /// Further details; never a secret.
    pub detail: Option<RawJson>,
}

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditRow {
    /// Its position, from 1.
    pub id: u64,
    /// The time, by the store's clock.
    pub recorded_at: Time,
    /// The recorded request.
    pub entry: AuditEntry,
    /// Hash of the previous entry's hash and this entry's content.
    pub hash: [u8; 32],
}

impl AuditRow {
    /// The hash before the first entry.
    pub const START: [u8; 32] = [0; 32];

    /// Whether this entry is unmodified and directly follows the entry with hash `before`.
    pub fn follows(&self, before: &[u8; 32]) -> bool {
        self.hash == chain_hash(before, &hashed_text(self.id, self.recorded_at, &self.entry))
    }
}

/// The text that the entry's hash covers.
pub(crate) fn hashed_text(id: u64, recorded_at: Time, entry: &AuditEntry) -> String {
    let entry = serde_json::to_string(entry).expect("plain data serializes to JSON");
    format!("{id} {} {entry}", recorded_at.0)
}

/// Hashes a text together with the previous hash.
pub(crate) fn chain_hash(before: &[u8; 32], text: &str) -> [u8; 32] {
    let mut hash = sha2::Sha256::new();
    hash.update(before);
    hash.update(text.as_bytes());
    hash.finalize().into()
}

/// A command that a worker has claimed, and the status of its execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerClaim {
    /// The claim.
    pub claim: ClaimId,
    /// Whether its execution is paused.
    pub is_paused: bool,
    /// Whether its execution is being cancelled or has ended.
    pub is_cancelling: bool,
    /// Time of the claim.
    pub claimed_at: Time,
}

/// A process that uses the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreProcess {
    /// The process's ID.
    pub owner: OwnerId,
    /// The URL at which it is reachable.
    pub address: Option<String>,
    /// When it last wrote to the store that it is alive; `None` for a process that holds a lock instead.
    pub heartbeat_at: Option<Time>,
    /// Whether it is alive.
    pub is_alive: bool,
    /// Whether its commits go to the outbox, so that it can publish them.
    pub publishes: bool,
}

/// An append that waits to be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutboxRow {
    /// Its position in the order of publication; appends of one transaction may share it.
    pub position: u64,
    /// The execution of the log.
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
        let hash = chain_hash(&AuditRow::START, &hashed_text(1, Time(5), &entry));
        let mut row = AuditRow {
            id: 1,
            recorded_at: Time(5),
            entry,
            hash,
        };
        assert!(row.follows(&AuditRow::START));
        assert!(!row.follows(&[1; 32]));
        row.entry.actor = "bob".to_owned();
        assert!(!row.follows(&AuditRow::START));
    }
}
