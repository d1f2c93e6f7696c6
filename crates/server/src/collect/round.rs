//! One round: all old bodies are candidates, each log removes the bodies it needs from the candidates, and the rest is
//! deleted.

use std::collections::BTreeMap;
use std::time::Duration;

use model::id::{ExecutionId, Seq};
use model::time::Time;
use results::Bodies;
use store::{ExecutionRow, Filter, Store};

use super::marks::{End, Life, Marks};
use crate::error::Error;

/// Minimum age of a body, because the event of a younger body may not be committed yet.
const GRACE: Duration = Duration::from_secs(24 * 3600);
/// Maximum number of bodies per pass over the logs.
const CANDIDATES: usize = 100_000;
/// Page size of the list of executions.
const RUNS: usize = 500;
/// Page size of events.
const EVENTS: usize = 5_000;
/// Maximum nesting of sub-playbooks, with a margin.
const DEPTH_MAX: usize = 32;

/// Options of a garbage collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collection {
    /// How long bodies are retained after the end of an execution.
    pub retention: Duration,
    /// Whether bodies are only counted and not deleted.
    pub is_dry: bool,
}

/// Bodies that were deleted, or would be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collected {
    /// Number of bodies.
    pub bodies: u64,
    /// Their total size.
    pub bytes: u64,
}

/// Deletes every unreferenced body that is older than a day.
pub async fn collect(
    store: &dyn Store,
    bodies: &dyn Bodies,
    how: Collection,
) -> Result<Collected, Error> {
    let now = store.now();
    let day = i64::try_from(GRACE.as_micros()).unwrap_or(i64::MAX);
    let before = Time(now.0.saturating_sub(day));
    let mut collected = Collected::default();
    let mut after: Option<String> = None;
    loop {
        let old = bodies
            .stored_before(before, after.as_deref(), CANDIDATES)
            .await?;
        let Some(last) = old.last() else {
            return Ok(collected);
        };
        after = Some(last.sha256.clone());
        let mut pass = Pass {
            store,
            candidates: old.into_iter().map(|old| (old.sha256, old.bytes)).collect(),
            now,
            retention: how.retention,
            open: Vec::new(),
        };
        pass.mark().await?;
        for (sha256, bytes) in pass.candidates {
            if how.is_dry || bodies.delete_stored_before(&sha256, before).await? {
                collected.bodies += 1;
                collected.bytes += bytes;
            }
        }
    }
}

/// One pass over the logs.
struct Pass<'s> {
    store: &'s dyn Store,
    /// Bodies without a known reference so far.
    candidates: BTreeMap<String, u64>,
    now: Time,
    retention: Duration,
    /// Executions that were still running when they were read, with the last seq that was read.
    open: Vec<(ExecutionId, Seq)>,
}

impl Pass<'_> {
    /// Removes all referenced bodies from the candidates.
    async fn mark(&mut self) -> Result<(), Error> {
        for id in self.store.lasting_runs().await? {
            let marks = self.log(id, Seq(0)).await?.0;
            self.keep(&marks, self.life(false, false));
        }
        let newest = self.all_before(None, None).await?;
        // Executions that started or continued meanwhile may refer to candidates.
        for (id, seq) in std::mem::take(&mut self.open) {
            let marks = self.log(id, seq).await?.0;
            self.keep(&marks, self.life(true, true));
        }
        self.all_before(None, newest).await?;
        Ok(())
    }

    /// Reads the executions older than `before` and newer than `until`, newest first; returns the newest.
    async fn all_before(
        &mut self,
        mut before: Option<ExecutionId>,
        until: Option<ExecutionId>,
    ) -> Result<Option<ExecutionId>, Error> {
        let mut newest = None;
        while !self.candidates.is_empty() {
            let filter = Filter {
                before,
                limit: RUNS,
                ..Filter::default()
            };
            let rows = self.store.executions(&filter).await?;
            let Some(last) = rows.last() else { break };
            before = Some(last.id);
            for row in rows {
                if until.is_some_and(|until| row.id <= until) {
                    return Ok(newest);
                }
                newest = newest.or(Some(row.id));
                self.run(&row).await?;
            }
        }
        Ok(newest)
    }

    async fn run(&mut self, row: &ExecutionRow) -> Result<(), Error> {
        let end = end(row);
        let root = match row.parent {
            Some(parent) => self.root(parent).await?,
            None => end,
        };
        let life = self.life(self.is_kept(end), self.is_kept(root));
        if !life.run && !life.root {
            return Ok(());
        }
        let (marks, seq) = self.log(row.id, Seq(0)).await?;
        // Bodies of the executions that this one refers to are retained as long as its own, regardless of their age.
        for pinned in marks.pins.iter().filter(|pinned| **pinned != row.id) {
            let marks = self.log(*pinned, Seq(0)).await?.0;
            self.keep(&marks, life);
        }
        self.keep(&marks, life);
        if row.finished_at.is_none() {
            self.open.push((row.id, seq));
        }
        Ok(())
    }

    /// When the root of a tree of executions ended.
    async fn root(&self, parent: ExecutionId) -> Result<End, Error> {
        let mut above = Some(parent);
        let mut found = End::Open;
        for _ in 0..DEPTH_MAX {
            let Some(id) = above else { break };
            let Some(row) = self.store.execution(id).await? else {
                // The end is unknown, so its bodies are retained.
                return Ok(End::Open);
            };
            found = end(&row);
            above = row.parent;
        }
        Ok(found)
    }

    /// Reads the log after a seq; returns its references and its last seq.
    async fn log(&self, id: ExecutionId, mut after: Seq) -> Result<(Marks, Seq), Error> {
        let mut marks = Marks::default();
        loop {
            let page = self.store.events(id, after, EVENTS).await?;
            let Some(last) = page.last() else {
                return Ok((marks, after));
            };
            after = last.seq;
            for event in &page {
                marks.read(event);
            }
        }
    }

    fn life(&self, run: bool, root: bool) -> Life {
        let now = self.now;
        Life { run, root, now }
    }

    fn is_kept(&self, end: End) -> bool {
        end.is_kept(self.now, self.retention)
    }

    fn keep(&mut self, marks: &Marks, life: Life) {
        for hash in marks.kept(life) {
            self.candidates.remove(hash);
        }
    }
}

fn end(row: &ExecutionRow) -> End {
    row.finished_at.map_or(End::Open, End::At)
}
