//! Delays between retries while the server is unavailable.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

const DELAY_MIN: Duration = Duration::from_millis(50);
const DELAY_MAX: Duration = Duration::from_secs(5);

/// Exponential backoff with jitter, so that workers do not all reconnect at once.
#[derive(Debug)]
pub(crate) struct RetryBackoff {
    next_delay: Duration,
}

impl Default for RetryBackoff {
    fn default() -> Self {
        Self { next_delay: DELAY_MIN }
    }
}

impl RetryBackoff {
    /// Sleeps for a random time between half of the next delay and the whole.
    pub(crate) async fn wait(&mut self) {
        let delay = self.next_delay;
        self.next_delay = (delay * 2).min(DELAY_MAX);
        tokio::time::sleep(delay / 2 + (delay / 2).mul_f64(random_fraction())).await;
    }

    /// Resets the delay to the shortest one, after a successful request.
    pub(crate) fn reset(&mut self) {
        self.next_delay = DELAY_MIN;
    }
}

/// Returns a random number from 0 to 1.
fn random_fraction() -> f64 {
    let bits = RandomState::new().build_hasher().finish();
    f64::from(u32::try_from(bits >> 32).unwrap_or(0)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn delays_grow_to_a_maximum_and_can_be_reset() {
        let mut backoff = RetryBackoff::default();
        for _ in 0..12 {
            backoff.wait().await;
        }
        let start = Instant::now();
        backoff.wait().await;
        let longest = start.elapsed();
        assert!(longest >= DELAY_MAX / 2 && longest <= DELAY_MAX + Duration::from_millis(2));
        backoff.reset();
        let start = Instant::now();
        backoff.wait().await;
        assert!(start.elapsed() <= DELAY_MIN + Duration::from_millis(2));
    }
}
