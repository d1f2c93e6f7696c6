//! Rate limit for admissions to the cache.

use tokio::time::Instant;

/// A rate limit in bytes per second; the burst is one second's worth.
#[derive(Debug)]
pub(super) struct Rate {
    per_second: u64,
    left: u64,
    since: Instant,
}

impl Rate {
    pub(super) fn new(per_second: u64) -> Self {
        Self {
            per_second,
            left: per_second,
            since: Instant::now(),
        }
    }

    /// Whether this many bytes are admitted now.
    pub(super) fn admits(&mut self, bytes: u64) -> bool {
        let now = Instant::now();
        let passed = u64::try_from((now - self.since).as_millis()).unwrap_or(u64::MAX);
        if passed > 0 {
            let earned = self.per_second.saturating_mul(passed) / 1000;
            self.left = self.left.saturating_add(earned).min(self.per_second);
            self.since = now;
        }
        let admits = bytes <= self.left;
        if admits {
            self.left -= bytes;
        }
        admits
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_second_brings_a_second_s_worth_and_no_more() {
        let mut rate = Rate::new(100);
        assert!(rate.admits(60));
        assert!(!rate.admits(60));
        tokio::time::advance(Duration::from_millis(250)).await;
        assert!(rate.admits(60));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(!rate.admits(101));
        assert!(rate.admits(100));
    }
}
