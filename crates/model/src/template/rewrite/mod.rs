//! Rewrites the syntax tree: operators that could build values without bound, comparisons and uses of names go through
//! our own filters. Input: the parsed tree. Output: the tree to compile, and the paths it reads.

mod expressions;
mod operations;
mod place;
mod range_call;
mod statements;

pub use place::PathUse;
pub(crate) use place::range;
pub(crate) use range_call::range_call;
pub(crate) use statements::{Rewriter, Taken};
