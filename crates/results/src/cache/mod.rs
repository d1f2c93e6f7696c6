//! Cache of bodies that this process recently stored or read, in memory and on disk, in front of a permanent store.
//!
//! The disk has two pools, so that a few large bodies do not evict many small ones. The bytes admitted per second are
//! limited, so that a burst does not replace the cache. The cache is optional: if it cannot be written or contains a
//! damaged file, lookups miss.

mod body_cache;
mod cached_store;
mod rate;

pub(crate) use body_cache::BodyCache;
pub(crate) use cached_store::{BackingStore, CachedBodyStore};
