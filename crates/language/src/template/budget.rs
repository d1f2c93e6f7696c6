//! Limits of one rendering. A rendering that exceeds one of them fails with `TEMPLATE_LIMIT`.

use minijinja::{Error, ErrorKind};

/// Maximum length of a template.
pub const SOURCE_BYTES_MAX: usize = 64 * 1024;
/// Maximum length of the text that a template produces.
pub const OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// Maximum total size of the values that filters and operators of one rendering build.
pub const ALLOCATION_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Maximum size of the value that a template produces: its text, and `ITEM_BYTES` for each item.
pub const RESULT_BYTES_MAX: usize = 12 * 1024 * 1024;
/// Maximum number of instructions of one rendering: about 50,000 operations of the template, each of which takes a few.
pub const FUEL_MAX: u64 = 200_000;
/// Work that reading one item counts as, in characters.
pub(crate) const ITEM_WORK: usize = 32;
/// Maximum work of the filters and comparisons of one rendering, in characters.
pub(crate) const WORK_MAX: usize = 32 * 1024 * 1024;
/// Maximum nesting depth of a value that a template builds.
pub(crate) const DEPTH_MAX: usize = 200;
/// Maximum nesting depth of an expression.
pub(crate) const EXPRESSION_DEPTH_MAX: usize = 150;
/// Maximum number of operators, attributes and filters in one tag, at all depths together.
pub(crate) const TAG_TOKENS_MAX: usize = 1500;
/// Maximum number of `elif` branches in one template.
pub(crate) const ELIF_MAX: usize = 100;
/// Maximum nesting depth of statements at run time.
pub(crate) const RECURSION_MAX: usize = 64;
/// Bytes that a list item counts as, in addition to its content.
pub(crate) const ITEM_BYTES: usize = 32;
/// Bytes that a map counts as, in addition to its entries.
pub(crate) const MAP_BYTES: usize = 64;

/// A limit on what one rendering uses in total.
pub(crate) struct UsageLimit {
    max: usize,
    /// What the template does if it exceeds the limit.
    problem: &'static str,
}

/// Limits the values that a rendering builds.
pub(crate) const ALLOCATION_LIMIT: UsageLimit = UsageLimit {
    max: ALLOCATION_BYTES_MAX,
    problem: "it builds more than 4 MiB of values",
};

/// Limits the text that a rendering prints.
pub(crate) const OUTPUT_LIMIT: UsageLimit = UsageLimit {
    max: OUTPUT_BYTES_MAX,
    problem: "its text is longer than 1 MiB",
};

/// Limits the value that a rendering returns as data.
pub(crate) const RESULT_LIMIT: UsageLimit = UsageLimit {
    max: RESULT_BYTES_MAX,
    problem: "the value is larger than 12 MiB",
};

/// Limits the data that a rendering reads.
pub(crate) const WORK_LIMIT: UsageLimit = UsageLimit {
    max: WORK_MAX,
    problem: "it reads too much data too often",
};

impl UsageLimit {
    /// Adds `amount` to `used`. Returns an error if the sum exceeds the limit.
    pub(crate) fn charge(&self, used: &mut usize, amount: usize) -> Result<(), Error> {
        *used = used.saturating_add(amount);
        self.check(*used, 0)
    }

    /// Returns an error if `used` plus `amount` exceeds the limit.
    pub(crate) fn check(&self, used: usize, amount: usize) -> Result<(), Error> {
        if used.saturating_add(amount) > self.max {
            return Err(limit_error(self.problem));
        }
        Ok(())
    }
}

/// Returns the error of a rendering that exceeds a limit.
pub(crate) fn limit_error(problem: &str) -> Error {
    Error::new(ErrorKind::OutOfFuel, problem.to_owned())
}
