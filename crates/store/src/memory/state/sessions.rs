//! Worker sessions: the holder of a worker's name, and the expiry time.

use model::id::WorkerId;
use model::time::Time;

use crate::memory::state::{MemoryState, REPLACED_CLAIM_TIME};
use crate::rows::SessionHolder;

/// A worker's session.
#[derive(Clone)]
pub(in crate::memory) struct SessionRow {
    pub(in crate::memory) holder: SessionHolder,
    pub(in crate::memory) expires_at: Time,
    pub(in crate::memory) description: Option<String>,
}

impl MemoryState {
    pub(in crate::memory) fn renew_session(
        &mut self,
        worker: &WorkerId,
        holder: &SessionHolder,
        expires_at: Time,
    ) -> bool {
        let new_row = || SessionRow {
            holder: holder.clone(),
            expires_at,
            description: None,
        };
        let session = self.sessions.entry(worker.clone()).or_insert_with(new_row);
        let is_theirs = session.holder == *holder;
        if is_theirs {
            session.expires_at = expires_at;
        }
        is_theirs
    }

    pub(in crate::memory) fn replace_session(
        &mut self,
        worker: &WorkerId,
        replaced: &SessionHolder,
        row: SessionRow,
    ) -> bool {
        let session = self.sessions.get_mut(worker);
        let Some(session) = session.filter(|session| session.holder == *replaced) else {
            return false;
        };
        *session = row;
        let commands = self
            .executions
            .values_mut()
            .flat_map(|execution| execution.commands.values_mut());
        for record in commands.filter(|record| record.worker.as_ref() == Some(worker)) {
            record.claimed_at = REPLACED_CLAIM_TIME;
        }
        true
    }
}
