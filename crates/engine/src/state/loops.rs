//! A loop's progress: counters, bitmaps and the few iterations that are under way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::command::{Continuation, Work};
use model::ctx::Combined;
use model::event::{LoopStarted, LoopStats};
use model::id::Seq;
use model::outcome::TaskError;
use model::playbook::{FailureMode, LoopMode};
use roaring::RoaringTreemap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A loop whose results are kept inline holds at most this many of them.
pub(super) const INLINE_PARTS_MAX: u64 = 1_000;

/// The progress of one loop run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoopRun {
    /// The `loop.started` event.
    pub started: Seq,
    /// The later frames of a cursor loop: the first index of each, and its `loop.frame.claimed` event.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<(u64, Seq)>,
    /// Whether more rows are claimed when these are through.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// How many elements.
    pub total: u64,
    /// One after the other, or several at once.
    pub mode: LoopMode,
    /// How many at once.
    pub max_in_flight: u32,
    /// What a failed iteration means.
    pub failure: FailureMode,
    /// Whether one worker takes the whole loop.
    pub local: bool,
    /// The first index never offered.
    pub next: u64,
    /// Iterations that ended well.
    pub done: RoaringTreemap,
    /// Iterations that failed.
    pub failed: RoaringTreemap,
    /// Iterations that began and have not ended.
    pub live: BTreeMap<u64, Continuation>,
    /// Iterations that wait with no command.
    pub suspended: BTreeSet<u64>,
    /// Ranges that came back unfinished.
    pub returned: Vec<Returned>,
    /// Suspended iterations whose wait is over and that no command carries yet.
    pub awake: BTreeSet<u64>,
    /// Where iterations that failed stood, for a retry.
    pub broken: BTreeMap<u64, Continuation>,
    /// The last outcome of each finished iteration, while all of them may still fit inline.
    pub outcomes: BTreeMap<u64, Seq>,
    /// The size of those outcomes.
    pub outcome_bytes: u64,
    /// Writes to `ctx`, which apply together at the end.
    pub patches: Combined,
    /// Writes to `ctx` of iterations that failed; a retry makes them again.
    pub broken_patches: BTreeMap<u64, Map<String, Value>>,
    /// The `ctx` that the iterations of a parallel loop see: as it was when the loop started.
    pub ctx: Option<Arc<Map<String, Value>>>,
    /// The failure with the lowest index.
    pub first_error: Option<(u64, TaskError)>,
    /// The mean duration of an iteration so far, in microseconds.
    pub mean_us: u64,
    /// Whether some iterations were taken over from another run, and so have no outcome in this log.
    #[serde(default)]
    pub is_partly_reused: bool,
}

/// A range that came back unfinished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returned {
    /// The first index.
    pub from: u64,
    /// One past the last index.
    pub to: u64,
    /// Of one iteration: how many workers died while they ran its current task. Of more: whether one died with them,
    /// so that they are offered in halves.
    pub strikes: u32,
}

impl LoopRun {
    /// A loop that has just begun.
    pub fn begin(started: &LoopStarted, seq: Seq) -> Self {
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
            patches: Combined::default(),
            broken_patches: BTreeMap::new(),
            ctx: None,
            first_error: None,
            mean_us: 0,
            is_partly_reused: false,
        }
    }

    /// More rows come behind those that are through; the claim that finds none is the last.
    pub fn extend(&mut self, rows: u64, seq: Seq) {
        self.more = rows > 0;
        if self.more {
            self.frames.push((self.total, seq));
            self.total += rows;
        }
    }

    /// The event that holds the element at this index.
    pub fn holder(&self, index: u64) -> Seq {
        let behind = self.frames.partition_point(|(from, _)| *from <= index);
        let frame = behind.checked_sub(1).map(|place| self.frames[place].1);
        frame.unwrap_or(self.started)
    }

    /// One past the last index that the same event holds.
    pub fn frame_end(&self, index: u64) -> u64 {
        let behind = self.frames.partition_point(|(from, _)| *from <= index);
        self.frames
            .get(behind)
            .map_or(self.total, |(from, _)| *from)
    }

    /// The event that holds the elements of this work.
    pub fn holder_of(&self, work: Work) -> Seq {
        match work {
            Work::Range { from, .. } => self.holder(from),
            Work::Iteration { index } => self.holder(index),
            Work::Pipeline | Work::Prepare => self.started,
        }
    }

    /// Whether everything that was claimed is through and more may come.
    pub fn wants_more(&self) -> bool {
        self.more && self.ended() == self.total && !self.is_stopped()
    }

    /// Whether this index has ended.
    pub fn has_ended(&self, index: u64) -> bool {
        self.done.contains(index) || self.failed.contains(index)
    }

    /// How many iterations have ended.
    pub fn ended(&self) -> u64 {
        self.done.len() + self.failed.len()
    }

    /// Whether a failure keeps further iterations from starting.
    pub fn is_stopped(&self) -> bool {
        self.failure == FailureMode::FailFast && !self.failed.is_empty()
    }

    /// The counts.
    pub fn stats(&self) -> LoopStats {
        LoopStats {
            total: self.total,
            succeeded: self.done.len(),
            failed: self.failed.len(),
        }
    }

    /// Whether the outcomes may still all be kept inline.
    pub fn may_inline(&self) -> bool {
        !self.is_partly_reused
            && self.total <= INLINE_PARTS_MAX
            && self.outcome_bytes <= model::result_ref::INLINE_BYTES_MAX as u64
    }

    /// Takes note that an iteration ended; false if it had ended before.
    pub fn end(&mut self, index: u64, ok: bool) -> bool {
        if index >= self.total || self.has_ended(index) {
            return false;
        }
        let continuation = self.live.remove(&index).unwrap_or_default();
        self.suspended.remove(&index);
        self.awake.remove(&index);
        if ok {
            self.done.insert(index);
            self.remember(index, &continuation);
        } else {
            self.failed.insert(index);
            self.remember(index, &continuation);
            self.broken.insert(index, continuation);
        }
        true
    }

    /// Keeps the pointer to an iteration's last outcome while all results may still fit inline.
    fn remember(&mut self, index: u64, continuation: &Continuation) {
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

    /// The indices of `from..to` that have neither ended nor wait elsewhere, as runs of neighbours.
    pub fn unfinished(&self, from: u64, to: u64) -> Vec<(u64, u64)> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for index in from..to {
            if self.has_ended(index)
                || self.suspended.contains(&index)
                || self.awake.contains(&index)
            {
                continue;
            }
            match ranges.last_mut() {
                Some(last) if last.1 == index => last.1 += 1,
                _ => ranges.push((index, index + 1)),
            }
        }
        ranges
    }

    /// Learns how long an iteration takes, from the durations in the log.
    pub fn learn(&mut self, duration_ms: Option<u64>) {
        let sample = duration_ms.unwrap_or(0).saturating_mul(1_000);
        self.mean_us = if self.mean_us == 0 {
            sample
        } else {
            (self.mean_us * 7 + sample) / 8
        };
    }
}
