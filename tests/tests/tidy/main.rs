//! Project rules that a program can check.
//!
//! Each rule is a function from a list of files to findings. A test applies it to this tree, and a negative control
//! shows that it reports a seeded violation.

mod architecture;
mod dependencies;
mod documents;
mod folds;
mod functions;
mod identifiers;
mod names;
mod prose;
mod purity;
mod shape;
mod source_files;
mod vague_names;
mod words;
