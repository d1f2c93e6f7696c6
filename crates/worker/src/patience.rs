//! Delays between retries while the server is unavailable.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(5);

/// Exponential backoff with jitter, so that workers do not all reconnect at once.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Backoff {
    /// Sleeps for a random time between half of the next delay and the whole.
    pub(crate) async fn wait(&mut self) {
        let whole = self.next;
        self.next = (whole * 2).min(LONGEST);
        tokio::time::sleep(whole / 2 + (whole / 2).mul_f64(chance())).await;
    }

    /// Resets the delay to the shortest one, after a successful request.
    pub(crate) fn reset(&mut self) {
        self.next = FIRST;
    }
}

/// Returns a random number from 0 to 1.
fn chance() -> f64 {
    let bits = RandomState::new().build_hasher().finish();
    f64::from(u32::try_from(bits >> 32).unwrap_or(0)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn delays_grow_to_a_bound_and_start_anew() {
        let mut backoff = Backoff::default();
        for _ in 0..12 {
            backoff.wait().await;
        }
        let begun = Instant::now();
        backoff.wait().await;
        let longest = begun.elapsed();
        assert!(longest >= LONGEST / 2 && longest <= LONGEST + Duration::from_millis(2));
        backoff.reset();
        let begun = Instant::now();
        backoff.wait().await;
        assert!(begun.elapsed() <= FIRST + Duration::from_millis(2));
    }
}
