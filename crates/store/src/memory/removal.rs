//! Removes rows whose retention has passed, a bounded number of each kind at a time.

use model::id::{ExecutionId, WorkerId};
use model::time::Time;

use crate::commit::MessageKey;
use crate::memory::state::{ExecutionRecord, MemoryState, MessageState};
use crate::rows::{OldRows, RemovedRows};
use crate::store::DEDUP_PREFIX;

impl MemoryState {
    pub(super) fn remove_old(&mut self, old: OldRows, now: Time) -> RemovedRows {
        let mut rows = self.remove_settings(old, now);
        rows.removed += self.remove_sessions(old) + self.remove_messages(old) + self.remove_waits(old);
        rows
    }

    fn remove_waits(&mut self, old: OldRows) -> u64 {
        let has_ended = |record: &&mut ExecutionRecord| {
            let finished_at = record.row.finished_at;
            finished_at.is_some_and(|finished_at| finished_at < old.requests_before)
        };
        let ended = self.executions.values_mut().filter(has_ended);
        ended.map(|record| record.waits.clear()).sum()
    }

    fn remove_sessions(&mut self, old: OldRows) -> u64 {
        let has_claims = |worker: &WorkerId| {
            let mut commands = self.commands(None);
            commands.any(|record| record.worker.as_ref() == Some(worker))
        };
        let sessions = self.sessions.iter();
        let expired =
            sessions.filter(|(worker, session)| session.expires_at < old.sessions_before && !has_claims(worker));
        let workers: Vec<WorkerId> = expired
            .map(|(worker, _)| worker.clone())
            .take(old.limit as usize)
            .collect();
        for worker in &workers {
            self.sessions.remove(worker);
        }
        workers.len() as u64
    }

    fn remove_messages(&mut self, old: OldRows) -> u64 {
        let is_old = |(key, state): &(&MessageKey, &MessageState)| match state {
            MessageState::Pending => false,
            MessageState::Consumed(consumed_at) if key.seq.0 == 0 => *consumed_at < old.requests_before,
            MessageState::Consumed(consumed_at) => *consumed_at < old.messages_before,
        };
        let consumed = self.message_states.iter().filter(is_old);
        let keys: Vec<MessageKey> = consumed.map(|(key, _)| *key).take(old.limit as usize).collect();
        for key in &keys {
            self.message_states.remove(key);
        }
        keys.len() as u64
    }

    fn remove_settings(&mut self, old: OldRows, now: Time) -> RemovedRows {
        let mut rows = RemovedRows::default();
        let retained = self.admin.retained_from.iter();
        let expired = retained.filter(|(_, from)| **from < old.requests_before);
        let keys: Vec<String> = expired.map(|(key, _)| key.clone()).take(old.limit as usize).collect();
        for key in keys {
            if let Some(start) = self.postponed_start(&key, old.requests_before, now) {
                self.admin.retained_from.insert(key, start);
                rows.postponed += 1;
            } else {
                self.admin.remove_setting(&key);
                rows.removed += 1;
            }
        }
        rows
    }

    /// Start of the retention of a `dedup` key, if its execution has not ended before a time.
    fn postponed_start(&self, key: &str, before: Time, now: Time) -> Option<Time> {
        key.strip_prefix(DEDUP_PREFIX)?;
        let id = self.admin.settings.get(key)?.parse().ok()?;
        let row = &self.executions.get(&ExecutionId(id))?.row;
        match row.finished_at {
            Some(finished_at) => (finished_at >= before).then_some(finished_at),
            None => Some(now),
        }
    }
}
