//! Rate limit for admissions to the cache.

use tokio::time::Instant;

/// A rate limit in bytes per second; the burst is one second's worth.
#[derive(Debug)]
pub(super) struct ByteRateLimit {
    per_second: u64,
    remaining: u64,
    refilled_at: Instant,
}

impl ByteRateLimit {
    pub(super) fn new(per_second: u64) -> Self {
        Self {
            per_second,
            remaining: per_second,
            refilled_at: Instant::now(),
        }
    }

    /// Admits this many bytes, or returns false if the limit is reached.
    pub(super) fn try_acquire(&mut self, bytes: u64) -> bool {
        let now = Instant::now();
        let elapsed_ms = u64::try_from((now - self.refilled_at).as_millis()).unwrap_or(u64::MAX);
        if elapsed_ms > 0 {
            let refill = self.per_second.saturating_mul(elapsed_ms) / 1000;
            self.remaining = self.remaining.saturating_add(refill).min(self.per_second);
            self.refilled_at = now;
        }
        let is_admitted = bytes <= self.remaining;
        if is_admitted {
            self.remaining -= bytes;
        }
        is_admitted
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_second_brings_a_second_s_worth_and_no_more() {
        let mut rate = ByteRateLimit::new(100);
        assert!(rate.try_acquire(60));
        assert!(!rate.try_acquire(60));
        tokio::time::advance(Duration::from_millis(250)).await;
        assert!(rate.try_acquire(60));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(!rate.try_acquire(101));
        assert!(rate.try_acquire(100));
    }
}
