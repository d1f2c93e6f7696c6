//! Rewrites the syntax tree: operators that could build values without bound, comparisons and uses of names go through
//! our own filters. Input: the parsed tree. Output: the tree to compile, and the paths it reads.

mod expressions;
mod operations;
mod range_call;
mod spans;
mod statements;

pub(crate) use range_call::range_call;
pub use spans::PathUse;
pub(crate) use spans::byte_range;
pub(crate) use statements::{Rewriter, ValueUse};
