//! Outcomes of tasks that depend only on the seed and the attempt.

use std::time::Duration;

use model::outcome::{ErrorKind, Outcome, TaskError};

use crate::sim::random::mix;
use crate::world::{Answer, Answers, Asked};

/// Chooses the outcomes of tasks in a simulation.
pub(crate) struct Drawn {
    pub(crate) seed: u64,
}

impl Answers for Drawn {
    fn answer(&mut self, asked: &Asked<'_>) -> Option<Answer> {
        if asked.kind != "noop" {
            return None;
        }
        let draw = self.draw(asked);
        // Some tasks fail most of the time, so that their retries are exhausted.
        let is_prone = mix(self.name(asked)).is_multiple_of(6);
        let outcome = match draw % 100 {
            0..=3 => Outcome::error(TaskError::new(ErrorKind::Timeout, "TIMEOUT", "as drawn")),
            4..=11 => Outcome::error(TaskError::new(ErrorKind::ServerError, "DRAWN", "as drawn")),
            26..=79 if is_prone => {
                Outcome::error(TaskError::new(ErrorKind::ServerError, "DRAWN", "as drawn"))
            }
            12..=25 if asked.visit < 3 => Outcome::ok("again"),
            n => Outcome::ok(n),
        };
        let takes = match (draw >> 32) % 10 {
            0..=6 => 0,
            n => n - 6,
        };
        Some(Answer {
            outcome,
            takes: Duration::from_secs(takes),
        })
    }
}

impl Drawn {
    fn name(&self, asked: &Asked<'_>) -> u64 {
        let text = asked.step.bytes().chain(asked.task.bytes());
        text.fold(self.seed, |hash, byte| mix(hash ^ u64::from(byte)))
    }

    fn draw(&self, asked: &Asked<'_>) -> u64 {
        let name = self.name(asked);
        let index = asked.iteration.map_or(0, |index| index + 1);
        let parts = [index, u64::from(asked.visit), u64::from(asked.attempt)];
        parts
            .into_iter()
            .fold(name, |hash, part| mix(hash ^ mix(part)))
    }
}
