//! Bodies at hand: what this process stored or read lately, in memory and on its disk, before the store that keeps them
//! for good.
//!
//! Two pools on disk, so that a few large bodies do not drive out the many small ones that say what there is; what is
//! taken in is bounded per second, so that a flood passes by. Nothing here is needed: a cache that cannot be written or
//! holds something damaged is a cache that misses.

mod cached;
mod hold;
mod rate;

pub(crate) use cached::{Cached, Tier};
pub(crate) use hold::Cache;
