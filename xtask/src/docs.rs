//! `docs`: rewrites the parts of `docs/reference` and `docs/decisions` that are generated.

use crate::accept::ACCEPT;
use crate::shell::cargo;

/// The comparison of each page with the code lives in `tests/tests/docs.rs`; accepting rewrites the page.
pub(crate) fn run() -> anyhow::Result<()> {
    let (name, value) = ACCEPT;
    crate::shell::run(
        cargo(["test", "--quiet", "--package", "tests", "--test", "docs"]).env(name, value),
    )
}
