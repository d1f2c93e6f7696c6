//! Outcomes of tasks that depend only on the seed and the attempt.

use std::time::Duration;

use model::outcome::{ErrorKind, Outcome, TaskError};

use crate::conformance::{AttemptQuery, OutcomeSource, TimedOutcome};
use crate::sim::random::mix_bits;

/// Chooses the outcomes of tasks in a simulation.
pub(crate) struct SeededOutcomes {
    pub(crate) seed: u64,
}

impl OutcomeSource for SeededOutcomes {
    fn next_outcome(&mut self, query: &AttemptQuery<'_>) -> Option<TimedOutcome> {
        if query.kind != "noop" {
            return None;
        }
        let draw = self.attempt_hash(query);
        // Some tasks fail most of the time, so that their retries are exhausted.
        let fails_often = mix_bits(self.task_hash(query)).is_multiple_of(6);
        let outcome = match draw % 100 {
            0..=3 => Outcome::error(TaskError::new(ErrorKind::Timeout, "TIMEOUT", "as drawn")),
            4..=11 => Outcome::error(TaskError::new(ErrorKind::ServerError, "DRAWN", "as drawn")),
            26..=79 if fails_often => Outcome::error(TaskError::new(ErrorKind::ServerError, "DRAWN", "as drawn")),
            12..=25 if query.visit < 3 => Outcome::ok("again"),
            n => Outcome::ok(n),
        };
        let duration_s = match (draw >> 32) % 10 {
            0..=6 => 0,
            n => n - 6,
        };
        Some(TimedOutcome {
            outcome,
            duration: Duration::from_secs(duration_s),
        })
    }
}

impl SeededOutcomes {
    fn task_hash(&self, query: &AttemptQuery<'_>) -> u64 {
        let text = query.step.bytes().chain(query.task.bytes());
        text.fold(self.seed, |hash, byte| mix_bits(hash ^ u64::from(byte)))
    }

    fn attempt_hash(&self, query: &AttemptQuery<'_>) -> u64 {
        let task_hash = self.task_hash(query);
        let index = query.iteration.map_or(0, |index| index + 1);
        let parts = [index, u64::from(query.visit), u64::from(query.attempt)];
        parts
            .into_iter()
            .fold(task_hash, |hash, part| mix_bits(hash ^ mix_bits(part)))
    }
}
