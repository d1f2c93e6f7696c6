//! One round: everything old is a candidate, every log takes out what it needs, and what is left is removed.

use std::collections::BTreeMap;
use std::time::Duration;

use model::id::{ExecutionId, Seq};
use model::time::Time;
use results::Bodies;
use store::{ExecutionRow, Filter, Store};

use super::marks::{End, Life, Marks};
use crate::error::Error;

/// A body younger than this may be one whose event is still on its way.
const GRACE: Duration = Duration::from_secs(24 * 3600);
/// So many bodies are looked at in one pass over the logs.
const CANDIDATES: usize = 100_000;
/// So many runs are listed at once.
const RUNS: usize = 500;
/// So many events are read at once.
const EVENTS: usize = 5_000;
/// Sub-playbooks are nested at most so deep, with room to spare.
const DEPTH_MAX: usize = 32;

/// How bodies are collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collection {
    /// How long after a run's end its bodies are kept.
    pub retention: Duration,
    /// Whether nothing is removed, only counted.
    pub is_dry: bool,
}

/// What was collected, or would be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collected {
    /// Bodies.
    pub bodies: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Removes every body that is older than a day and that nothing needs any more.
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
    /// What nothing was found to need yet.
    candidates: BTreeMap<String, u64>,
    now: Time,
    retention: Duration,
    /// Runs that went on when they were read, and how far.
    open: Vec<(ExecutionId, Seq)>,
}

impl Pass<'_> {
    /// Takes out of the candidates whatever is needed.
    async fn mark(&mut self) -> Result<(), Error> {
        for id in self.store.lasting_runs().await? {
            let marks = self.log(id, Seq(0)).await?.0;
            self.keep(&marks, self.life(false, false));
        }
        let newest = self.all_before(None, None).await?;
        // What began or went on meanwhile may need some of it.
        for (id, seq) in std::mem::take(&mut self.open) {
            let marks = self.log(id, seq).await?.0;
            self.keep(&marks, self.life(true, true));
        }
        self.all_before(None, newest).await?;
        Ok(())
    }

    /// Reads the runs older than `before` and newer than `until`, newest first; answers the newest.
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
        // What this run leans on is kept as long as it is itself, however old it is.
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

    /// When the root of a tree of sub-playbooks ended.
    async fn root(&self, parent: ExecutionId) -> Result<End, Error> {
        let mut above = Some(parent);
        let mut found = End::Open;
        for _ in 0..DEPTH_MAX {
            let Some(id) = above else { break };
            let Some(row) = self.store.execution(id).await? else {
                // Nobody knows, so it lasts.
                return Ok(End::Open);
            };
            found = end(&row);
            above = row.parent;
        }
        Ok(found)
    }

    /// What a log holds after a seq, and its end.
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
