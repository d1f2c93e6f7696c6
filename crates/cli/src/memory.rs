//! How the process holds memory: few heaps, so that what one thread gives back serves the next, and nothing is kept for
//! long after a burst of work.

#![expect(
    unsafe_code,
    reason = "the C library is told how many heaps to keep and when to return memory, and has no safe way to be told"
)]

use std::num::NonZero;
use std::thread::available_parallelism;
use std::time::Duration;

use crate::config::Environment;

/// Lets the C library keep one heap a core. By itself it makes up to eight a core as threads come and go, and each keeps
/// what it once needed: a server that reads for fifty workers at once would hold several times what it uses.
/// To be called before threads start.
pub(crate) fn keep_few_heaps(environment: &Environment) {
    let chosen = ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES"];
    if !chosen.iter().any(|name| environment.get(name).is_some()) {
        set(available_parallelism().map_or(2, NonZero::get));
    }
}

/// How often a server returns memory that it does not use.
const RETURN_EVERY: Duration = Duration::from_secs(10);

/// Returns memory that is not used any more to the system, now and then, for as long as the process lives. By itself the C
/// library keeps most of what a burst of runs needed.
pub(crate) fn return_unused() {
    let thread = std::thread::Builder::new().name("return-memory".to_owned());
    let returning = thread.spawn(|| {
        loop {
            std::thread::sleep(RETURN_EVERY);
            return_now();
        }
    });
    if let Err(error) = returning {
        tracing::warn!(%error, "failed to start the thread that returns unused memory");
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn return_now() {
    // SAFETY: the call takes the allocator's own locks and returns pages that hold nothing. It answers whether there were
    // any.
    let _ = unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn return_now() {}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn set(heaps: usize) {
    let heaps = libc::c_int::try_from(heaps).unwrap_or(libc::c_int::MAX);
    // SAFETY: the call only writes a number that the allocator reads, and no other thread runs yet.
    // It answers whether it knows the setting; one that it does not know changes nothing.
    let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, heaps) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn set(_heaps: usize) {}
