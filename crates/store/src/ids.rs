//! New 64-bit IDs, ordered by time: 41 bits of milliseconds, 6 bits of the process's slot, 16 bits of a counter.
//!
//! Two processes on one store never share a slot, so IDs are unique. A block is consecutive, so the log can store it
//! as one number.

use std::sync::Mutex;

use model::id::EventId;
use model::time::Time;

/// Maximum number of processes that draw IDs from one store at a time.
pub(crate) const SLOTS: u8 = 64;

/// The start of the time range, 2025-01-01T00:00:00Z, in milliseconds since 1970.
const EPOCH_MS: i64 = 1_735_689_600_000;
const COUNTER_BITS: u32 = 16;
const SLOT_BITS: u32 = 6;
const COUNTER_MAX: i64 = 1 << COUNTER_BITS;

/// Draws IDs for one process.
pub(crate) struct IdGenerator {
    slot: i64,
    last: Mutex<LastId>,
}

/// The current millisecond, and the first unused counter value in it.
#[derive(Default)]
struct LastId {
    ms: i64,
    next: i64,
}

/// The first ID that a process can draw at this time.
pub(crate) fn first_id_at(time: Time) -> i64 {
    (time.0 / 1000 - EPOCH_MS).max(0) << (COUNTER_BITS + SLOT_BITS)
}

impl IdGenerator {
    pub(crate) fn new(slot: u8) -> Self {
        Self {
            slot: i64::from(slot % SLOTS),
            last: Mutex::default(),
        }
    }

    /// Returns the first of `count` consecutive IDs. IDs stay ascending if the clock goes back.
    pub(crate) fn draw(&self, now: Time, count: u32) -> EventId {
        let mut last = self.last.lock().expect("drawing ids does not panic");
        let ms = (now.0 / 1000 - EPOCH_MS).max(0);
        if ms > last.ms {
            *last = LastId { ms, next: 0 };
        } else if last.next + i64::from(count) > COUNTER_MAX && last.next > 0 {
            last.ms += 1;
            last.next = 0;
        }
        let first = last.next;
        last.next += i64::from(count);
        EventId((last.ms << (COUNTER_BITS + SLOT_BITS)) | (self.slot << COUNTER_BITS) | first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_increase_even_if_the_clock_goes_back() {
        let ids = IdGenerator::new(3);
        let late = ids.draw(Time(1_800_000_000_000_000), 10);
        let early = ids.draw(Time(1_700_000_000_000_000), 1);
        assert_eq!(early.0, late.0 + 10);
    }

    #[test]
    fn a_block_never_runs_into_the_slot_of_another_process() {
        let ids = IdGenerator::new(1);
        let now = Time(1_800_000_000_000_000);
        let first = ids.draw(now, 65_000);
        let second = ids.draw(now, 65_000);
        let slot = |id: i64| (id >> COUNTER_BITS) & 63;
        assert_eq!(slot(first.0 + 64_999), 1);
        assert_eq!(slot(second.0), 1);
        assert_eq!(slot(second.0 + 64_999), 1);
    }
}
