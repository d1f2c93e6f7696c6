//! The progress of a loop: counters, bitmaps and the iterations in progress.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::command::{CommandWork, Continuation};
use model::ctx::CombinedPatches;
use model::event::{LoopStarted, LoopStats};
use model::id::Seq;
use model::outcome::TaskError;
use model::playbook::{FailureMode, LoopMode};
use roaring::RoaringTreemap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Maximum number of results of a loop that are stored inline.
pub(super) const INLINE_PARTS_MAX: u64 = 1_000;

/// The progress of one loop run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoopRun {
    /// The `loop.started` event.
    pub started: Seq,
    /// The later frames of a cursor loop: the first index of each, and its `loop.frame.claimed` event.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<(u64, Seq)>,
    /// Whether the loop claims more rows when these have ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// Number of elements.
    pub total: u64,
    /// Sequential or parallel.
    pub mode: LoopMode,
    /// Maximum number of concurrent iterations.
    pub max_in_flight: u32,
    /// Whether a failed iteration fails the loop.
    pub failure: FailureMode,
    /// Whether one worker runs the whole loop.
    pub local: bool,
    /// The first index that was never offered.
    pub next: u64,
    /// Iterations that succeeded.
    pub done: RoaringTreemap,
    /// Iterations that failed.
    pub failed: RoaringTreemap,
    /// Iterations that have started but not ended.
    pub live: BTreeMap<u64, Continuation>,
    /// Iterations that wait without a command.
    pub suspended: BTreeSet<u64>,
    /// Ranges that were returned unfinished.
    pub returned: Vec<ReturnedRange>,
    /// Suspended iterations whose wait is over, and that no command covers yet.
    pub awake: BTreeSet<u64>,
    /// Positions of failed iterations, for a retry.
    pub broken: BTreeMap<u64, Continuation>,
    /// The last outcome of each finished iteration, as long as all of them may fit inline.
    pub outcomes: BTreeMap<u64, Seq>,
    /// The total size of those outcomes.
    pub outcome_bytes: u64,
    /// Writes to `ctx`, which are applied together at the end.
    pub patches: CombinedPatches,
    /// Writes to `ctx` of failed iterations; a retry produces them again.
    pub broken_patches: BTreeMap<u64, Map<String, Value>>,
    /// The `ctx` at the start of a parallel loop, which its iterations see.
    pub ctx: Option<Arc<Map<String, Value>>>,
    /// The failure with the lowest index.
    pub first_error: Option<(u64, TaskError)>,
    /// The mean duration of an iteration so far, in microseconds.
    pub mean_us: u64,
    /// Whether some iterations were reused from another execution, and so have no outcome in this log.
    #[serde(default)]
    pub is_partly_reused: bool,
}

/// A range that was returned unfinished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReturnedRange {
    /// The first index.
    pub from: u64,
    /// One past the last index.
    pub to: u64,
    /// For one iteration: the number of workers that died while running its current task. For several: nonzero if a
    /// worker died with them, so that they are offered in halves.
    pub strikes: u32,
}

impl LoopRun {
    /// Creates the progress of a loop that has just started.
    pub fn from_started(started: &LoopStarted, seq: Seq) -> Self {
        Self {
            started: seq,
            frames: Vec::new(),
            more: started.more,
            total: started.total,
            mode: started.mode,
            max_in_flight: started.max_in_flight,
            failure: started.failure,
            local: started.local,
            next: 0,
            done: RoaringTreemap::new(),
            failed: RoaringTreemap::new(),
            live: BTreeMap::new(),
            suspended: BTreeSet::new(),
            returned: Vec::new(),
            awake: BTreeSet::new(),
            broken: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            outcome_bytes: 0,
            patches: CombinedPatches::default(),
            broken_patches: BTreeMap::new(),
            ctx: None,
            first_error: None,
            mean_us: 0,
            is_partly_reused: false,
        }
    }

    /// Adds the rows of another claim. A claim without rows is the last one.
    pub fn add_frame(&mut self, rows: u64, seq: Seq) {
        self.more = rows > 0;
        if self.more {
            self.frames.push((self.total, seq));
            self.total += rows;
        }
    }

    /// The event that contains the element at this index.
    pub fn elements_event(&self, index: u64) -> Seq {
        let behind = self.frames.partition_point(|(from, _)| *from <= index);
        let frame = behind.checked_sub(1).map(|position| self.frames[position].1);
        frame.unwrap_or(self.started)
    }

    /// One past the last index whose element is in the same event.
    pub fn frame_end(&self, index: u64) -> u64 {
        let behind = self.frames.partition_point(|(from, _)| *from <= index);
        self.frames.get(behind).map_or(self.total, |(from, _)| *from)
    }

    /// The event that contains the elements of this work.
    pub fn elements_event_of(&self, work: CommandWork) -> Seq {
        match work {
            CommandWork::Range { from, .. } => self.elements_event(from),
            CommandWork::Iteration { index } => self.elements_event(index),
            CommandWork::Pipeline | CommandWork::Prepare => self.started,
        }
    }

    /// Whether all claimed rows have ended and more may follow.
    pub fn may_claim_more(&self) -> bool {
        self.more && self.ended_count() == self.total && !self.is_stopped()
    }

    /// Whether this index has ended.
    pub fn has_ended(&self, index: u64) -> bool {
        self.done.contains(index) || self.failed.contains(index)
    }

    /// Number of iterations that have ended.
    pub fn ended_count(&self) -> u64 {
        self.done.len() + self.failed.len()
    }

    /// Whether a failure prevents further iterations from starting.
    pub fn is_stopped(&self) -> bool {
        self.failure == FailureMode::FailFast && !self.failed.is_empty()
    }

    /// The counts of the loop.
    pub fn stats(&self) -> LoopStats {
        LoopStats {
            total: self.total,
            succeeded: self.done.len(),
            failed: self.failed.len(),
        }
    }

    /// Whether all outcomes may still fit inline.
    pub fn may_inline(&self) -> bool {
        !self.is_partly_reused
            && self.total <= INLINE_PARTS_MAX
            && self.outcome_bytes <= model::result_ref::INLINE_BYTES_MAX as u64
    }

    /// Records the end of an iteration. Returns false if it had already ended.
    pub fn record_end(&mut self, index: u64, ok: bool) -> bool {
        if index >= self.total || self.has_ended(index) {
            return false;
        }
        let continuation = self.live.remove(&index).unwrap_or_default();
        self.suspended.remove(&index);
        self.awake.remove(&index);
        if ok {
            self.done.insert(index);
            self.record_outcome(index, &continuation);
        } else {
            self.failed.insert(index);
            self.record_outcome(index, &continuation);
            self.broken.insert(index, continuation);
        }
        true
    }

    /// Records the pointer to an iteration's last outcome, as long as all results may fit inline.
    fn record_outcome(&mut self, index: u64, continuation: &Continuation) {
        let last = continuation
            .last
            .as_ref()
            .and_then(|label| continuation.outcomes.get(label));
        if let Some(pointer) = last.filter(|_| self.may_inline()) {
            self.outcome_bytes += u64::from(pointer.bytes);
            self.outcomes.insert(index, pointer.seq);
        }
        if !self.may_inline() {
            self.outcomes.clear();
        }
    }

    /// The indices of `from..to` that have neither ended nor are suspended or awake, as ranges of consecutive indices.
    pub fn unfinished_ranges(&self, from: u64, to: u64) -> Vec<(u64, u64)> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for index in from..to {
            if self.has_ended(index) || self.suspended.contains(&index) || self.awake.contains(&index) {
                continue;
            }
            match ranges.last_mut() {
                Some(last) if last.1 == index => last.1 += 1,
                _ => ranges.push((index, index + 1)),
            }
        }
        ranges
    }

    /// Updates the mean duration of an iteration with a duration from the log.
    pub fn update_mean_duration(&mut self, duration_ms: Option<u64>) {
        let sample = duration_ms.unwrap_or(0).saturating_mul(1_000);
        self.mean_us = if self.mean_us == 0 {
            sample
        } else {
            (self.mean_us * 7 + sample) / 8
        };
    }
}
