//! Allocator settings: few heaps, so that threads reuse freed memory, and a periodic return of unused memory to the
//! system.

#![expect(
    unsafe_code,
    reason = "the C library has no safe interface to set the number of heaps and to return memory"
)]

use std::num::NonZero;
use std::thread::available_parallelism;
use std::time::Duration;

use crate::config::{Environment, variables};

/// Limits the C library to one heap for each core. Its default is up to eight, and each heap keeps the memory it once
/// needed: a server that reads for fifty workers at once would hold several times the memory it uses.
/// Must be called before threads start.
pub(crate) fn limit_heaps(environment: &Environment) {
    let chosen = [variables::MALLOC_ARENA_MAX, variables::GLIBC_TUNABLES];
    if !chosen.iter().any(|variable| environment.get(*variable).is_some()) {
        set_heap_limit(available_parallelism().map_or(2, NonZero::get));
    }
}

/// Interval at which a server returns unused memory.
const TRIM_INTERVAL: Duration = Duration::from_secs(10);

/// Starts a thread that returns unused memory to the system every `TRIM_INTERVAL`. By default the C library keeps most
/// of the memory that a burst of runs needed.
pub(crate) fn start_memory_trim() {
    let thread = std::thread::Builder::new().name("return-memory".to_owned());
    let returning = thread.spawn(|| {
        loop {
            std::thread::sleep(TRIM_INTERVAL);
            trim_memory();
        }
    });
    if let Err(error) = returning {
        tracing::warn!(%error, "failed to start the thread that returns unused memory");
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim_memory() {
    // SAFETY: the call takes the allocator's own locks and returns unused pages. Its result is not needed.
    let _ = unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim_memory() {}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn set_heap_limit(heaps: usize) {
    let heaps = libc::c_int::try_from(heaps).unwrap_or(libc::c_int::MAX);
    // SAFETY: the call only writes a number that the allocator reads, and no other thread runs yet.
    // Its result is not needed: an unsupported setting changes nothing.
    let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, heaps) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn set_heap_limit(_heaps: usize) {}
