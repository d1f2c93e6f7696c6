//! The house rules, where a machine can check them.
//!
//! Each rule is a function over a list of files that returns findings. It is applied to this tree, and its negative
//! control shows that it catches a seeded violation.

mod architecture;
mod arrows;
mod documents;
mod functions;
mod house;
mod prose;
mod purity;
mod shape;
mod words;
