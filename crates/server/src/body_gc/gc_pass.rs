//! One round: all old bodies are candidates, each log removes the bodies it needs from the candidates, and the rest is
//! deleted.

use std::collections::BTreeMap;
use std::time::Duration;

use model::id::{ExecutionId, Seq};
use model::time::Time;
use results::{BodyStore, OldBodyQuery};
use store::{ExecutionFilter, ExecutionRow, Store};

use super::live_references::{ExecutionEnd, LiveReferences, RetentionState};
use crate::error::Error;

/// Minimum age of a body, because the event of a younger body may not be committed yet.
const GRACE: Duration = Duration::from_secs(24 * 3600);
/// Maximum number of bodies per pass over the logs.
const CANDIDATES_MAX: usize = 100_000;
/// Page size of the list of executions.
const EXECUTIONS_PAGE: usize = 500;
/// Page size of events.
const EVENTS_PAGE: usize = 5_000;
/// Maximum nesting of sub-playbooks, with a margin.
const DEPTH_MAX: usize = 32;

/// Options of a garbage collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GcOptions {
    /// How long bodies are retained after the end of an execution.
    pub retention: Duration,
    /// Whether bodies are only counted and not deleted.
    pub is_dry_run: bool,
}

/// Bodies that were deleted, or would be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GcStats {
    /// Number of bodies.
    pub bodies: u64,
    /// Their total size.
    pub bytes: u64,
}

/// Deletes every unreferenced body that is older than a day.
pub async fn collect_garbage(store: &dyn Store, bodies: &dyn BodyStore, options: GcOptions) -> Result<GcStats, Error> {
    let now = store.now();
    let day = i64::try_from(GRACE.as_micros()).unwrap_or(i64::MAX);
    let before = Time(now.0.saturating_sub(day));
    let mut collected = GcStats::default();
    let mut after: Option<String> = None;
    loop {
        let query = OldBodyQuery {
            before,
            after: after.as_deref(),
            limit: CANDIDATES_MAX,
        };
        let old = bodies.stored_before(&query).await?;
        let Some(last) = old.last() else {
            return Ok(collected);
        };
        after = Some(last.sha256.clone());
        let mut pass = GcPass {
            store,
            candidates: old.into_iter().map(|old| (old.sha256, old.bytes)).collect(),
            now,
            retention: options.retention,
            open_executions: Vec::new(),
        };
        pass.mark_live().await?;
        for (sha256, bytes) in pass.candidates {
            if options.is_dry_run || bodies.delete_stored_before(&sha256, before).await? {
                collected.bodies += 1;
                collected.bytes += bytes;
            }
        }
    }
}

/// One pass over the logs.
struct GcPass<'s> {
    store: &'s dyn Store,
    /// Bodies without a known reference so far.
    candidates: BTreeMap<String, u64>,
    now: Time,
    retention: Duration,
    /// Executions that were still running when they were read, with the last seq that was read.
    open_executions: Vec<(ExecutionId, Seq)>,
}

impl GcPass<'_> {
    /// Removes all referenced bodies from the candidates.
    async fn mark_live(&mut self) -> Result<(), Error> {
        for id in self.store.executions_with_permanent_bodies().await? {
            let marks = self.read_log(id, Seq(0)).await?.0;
            self.retain(&marks, self.retention_state(false, false));
        }
        let newest = self.mark_executions(None, None).await?;
        // Executions that started or continued meanwhile may refer to candidates.
        for (id, seq) in std::mem::take(&mut self.open_executions) {
            let marks = self.read_log(id, seq).await?.0;
            self.retain(&marks, self.retention_state(true, true));
        }
        self.mark_executions(None, newest).await?;
        Ok(())
    }

    /// Reads the executions older than `before` and newer than `until`, newest first; returns the newest.
    async fn mark_executions(
        &mut self,
        mut before: Option<ExecutionId>,
        until: Option<ExecutionId>,
    ) -> Result<Option<ExecutionId>, Error> {
        let mut newest = None;
        while !self.candidates.is_empty() {
            let filter = ExecutionFilter {
                before,
                limit: EXECUTIONS_PAGE,
                ..ExecutionFilter::default()
            };
            let rows = self.store.executions(&filter).await?;
            let Some(last) = rows.last() else { break };
            before = Some(last.id);
            for row in rows {
                if until.is_some_and(|until| row.id <= until) {
                    return Ok(newest);
                }
                newest = newest.or(Some(row.id));
                self.mark_execution(&row).await?;
            }
        }
        Ok(newest)
    }

    async fn mark_execution(&mut self, row: &ExecutionRow) -> Result<(), Error> {
        let end = execution_end(row);
        let root = match row.parent {
            Some(parent) => self.find_root_end(parent).await?,
            None => end,
        };
        let retention = self.retention_state(self.is_retained(end), self.is_retained(root));
        if !retention.is_execution_retained && !retention.is_root_retained {
            return Ok(());
        }
        let (marks, seq) = self.read_log(row.id, Seq(0)).await?;
        // Bodies of the executions that this one refers to are retained as long as its own, regardless of their age.
        for pinned in marks.pinned_executions.iter().filter(|pinned| **pinned != row.id) {
            let marks = self.read_log(*pinned, Seq(0)).await?.0;
            self.retain(&marks, retention);
        }
        self.retain(&marks, retention);
        if row.finished_at.is_none() {
            self.open_executions.push((row.id, seq));
        }
        Ok(())
    }

    /// When the root of a tree of executions ended.
    async fn find_root_end(&self, parent: ExecutionId) -> Result<ExecutionEnd, Error> {
        let mut above = Some(parent);
        let mut root_end = ExecutionEnd::Running;
        for _ in 0..DEPTH_MAX {
            let Some(id) = above else { break };
            let Some(row) = self.store.execution(id).await? else {
                // The end is unknown, so its bodies are retained.
                return Ok(ExecutionEnd::Running);
            };
            root_end = execution_end(&row);
            above = row.parent;
        }
        Ok(root_end)
    }

    /// Reads the log after a seq; returns its references and its last seq.
    async fn read_log(&self, id: ExecutionId, mut after: Seq) -> Result<(LiveReferences, Seq), Error> {
        let mut marks = LiveReferences::default();
        loop {
            let page = self.store.events(id, after, EVENTS_PAGE).await?;
            let Some(last) = page.last() else {
                return Ok((marks, after));
            };
            after = last.seq;
            for event in &page {
                marks.add_event(event);
            }
        }
    }

    fn retention_state(&self, run: bool, root: bool) -> RetentionState {
        let now = self.now;
        RetentionState {
            is_execution_retained: run,
            is_root_retained: root,
            now,
        }
    }

    fn is_retained(&self, end: ExecutionEnd) -> bool {
        end.is_retained(self.now, self.retention)
    }

    fn retain(&mut self, marks: &LiveReferences, retention: RetentionState) {
        for hash in marks.retained_hashes(retention) {
            self.candidates.remove(hash);
        }
    }
}

fn execution_end(row: &ExecutionRow) -> ExecutionEnd {
    row.finished_at.map_or(ExecutionEnd::Running, ExecutionEnd::EndedAt)
}
