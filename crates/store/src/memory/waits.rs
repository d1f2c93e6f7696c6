//! Tasks that wait for a signal, with the signals that arrived before.

use std::collections::BTreeMap;

use model::id::{ExecutionId, Name, Seq};

use crate::memory::state::{ExecutionRecord, MemoryState};
use crate::pending_waits::WaitChange;
use crate::rows::{PendingSignalWait, WaitEntry};
use crate::wait_filter::WaitFilter;

/// The rows of `pending_wait` and `early_signal` of one execution.
#[derive(Debug, Default)]
pub(super) struct WaitTables {
    waits: BTreeMap<Seq, PendingSignalWait>,
    early_signals: BTreeMap<Seq, Name>,
}

impl WaitTables {
    pub(super) fn apply(&mut self, change: WaitChange) {
        match change {
            WaitChange::Begin(wait) => self.begin(*wait),
            WaitChange::Signal { name, seq } => {
                let mut waits = self.waits.iter();
                match waits.find(|(_, wait)| wait.signal == name).map(|(seq, _)| *seq) {
                    Some(oldest) => drop(self.waits.remove(&oldest)),
                    None => drop(self.early_signals.insert(seq, name)),
                }
            }
            WaitChange::EndPipeline { run, iteration } => {
                self.waits
                    .retain(|_, wait| wait.run != run || wait.iteration != iteration);
            }
            WaitChange::EndRun { run } => self.waits.retain(|_, wait| wait.run != run),
            WaitChange::EndAll => self.waits.clear(),
        }
    }

    fn begin(&mut self, wait: PendingSignalWait) {
        let mut signals = self.early_signals.iter();
        let stored = signals.find(|(_, name)| **name == wait.signal).map(|(seq, _)| *seq);
        if let Some(seq) = stored {
            self.early_signals.remove(&seq);
            return;
        }
        self.waits
            .retain(|_, other| other.run != wait.run || other.iteration != wait.iteration);
        self.waits.insert(wait.seq, wait);
    }

    /// Removes all rows; returns their number.
    pub(super) fn clear(&mut self) -> u64 {
        let removed = self.waits.len() + self.early_signals.len();
        *self = Self::default();
        removed as u64
    }
}

impl ExecutionRecord {
    fn wait_entries(&self) -> impl Iterator<Item = WaitEntry> {
        let is_active = !self.row.status.is_terminal() && !self.row.cancelling;
        let waits = &self.waits.waits;
        let active = waits.values().filter(move |_| is_active);
        active.map(|wait| WaitEntry {
            wait: wait.clone(),
            path: self.row.path.clone(),
            playbook_version: self.row.playbook_version,
            is_next: !waits.range(..wait.seq).any(|(_, older)| older.signal == wait.signal),
        })
    }
}

impl MemoryState {
    pub(super) fn waits(&self, filter: &WaitFilter) -> Vec<WaitEntry> {
        let entries = self.executions.values().flat_map(ExecutionRecord::wait_entries);
        let mut entries: Vec<WaitEntry> = entries.filter(|entry| filter.matches(entry)).collect();
        entries.sort_by(|first, second| filter.compare(first.wait.position(), second.wait.position()));
        entries.truncate(filter.limit);
        entries
    }

    pub(super) fn awaited_signals(&self, ids: &[ExecutionId]) -> Vec<(ExecutionId, Name)> {
        let first = |id: &ExecutionId| {
            let waits = &self.executions.get(id)?.waits.waits;
            let signal = waits.values().map(|wait| &wait.signal).min()?;
            Some((*id, signal.clone()))
        };
        ids.iter().filter_map(first).collect()
    }
}
