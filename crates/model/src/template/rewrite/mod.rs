//! The syntax tree as the house runs it: every operator that could build without bound, every comparison and every use
//! of a name goes through a filter of ours. Enters: the parsed tree. Leaves: the tree to compile, and what it reads.

mod expressions;
mod operations;
mod place;
mod range_call;
mod statements;

pub use place::PathUse;
pub(crate) use place::range;
pub(crate) use range_call::range_call;
pub(crate) use statements::{Rewriter, Taken};
