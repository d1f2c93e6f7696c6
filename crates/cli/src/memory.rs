//! How the process holds memory: few heaps, so that what one thread gives back serves the next.

#![expect(
    unsafe_code,
    reason = "the C library is told how many heaps to keep, and has no safe way to be told"
)]

use std::num::NonZero;
use std::thread::available_parallelism;

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

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn set(heaps: usize) {
    let heaps = libc::c_int::try_from(heaps).unwrap_or(libc::c_int::MAX);
    // SAFETY: the call only writes a number that the allocator reads, and no other thread runs yet.
    // It answers whether it knows the setting; one that it does not know changes nothing.
    let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, heaps) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn set(_heaps: usize) {}
