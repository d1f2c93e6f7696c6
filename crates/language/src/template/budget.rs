//! What one rendering may spend. Over any of these it fails with `TEMPLATE_LIMIT`.

use minijinja::{Error, ErrorKind};

/// The longest template.
pub const SOURCE_BYTES_MAX: usize = 64 * 1024;
/// The longest text a template may come to.
pub const OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// All that filters and operators of one rendering may build, together.
pub const ALLOCATION_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The largest value a template may come to: its text, and a share for each item.
pub const RESULT_BYTES_MAX: usize = 12 * 1024 * 1024;
/// Instructions of one rendering: some 50 000 as an author counts them, since each use of a name takes a few.
pub const FUEL_MAX: u64 = 200_000;
/// What reading an item costs, in characters read.
pub(crate) const ITEM_WORK: usize = 32;
/// What filters and comparisons of one rendering may read, in characters.
pub(crate) const WORK_MAX: usize = 32 * 1024 * 1024;
/// How deeply a value that a template builds may be nested.
pub(crate) const DEPTH_MAX: usize = 200;
/// How deeply an expression may be nested.
pub(crate) const EXPRESSION_DEPTH_MAX: usize = 150;
/// Operators, attributes and filters in one tag, however they are nested.
pub(crate) const TAG_TOKENS_MAX: usize = 1500;
/// `elif` branches in one template.
pub(crate) const ELIF_MAX: usize = 100;
/// Nesting of statements at run time.
pub(crate) const RECURSION_MAX: usize = 64;
/// What a list item costs beside its content.
pub(crate) const ITEM_BYTES: usize = 32;
/// What a map costs beside its entries.
pub(crate) const MAP_BYTES: usize = 64;

/// The error of a rendering that is over its budget.
pub(crate) fn exceeded(what: &str) -> Error {
    Error::new(ErrorKind::OutOfFuel, what.to_owned())
}
