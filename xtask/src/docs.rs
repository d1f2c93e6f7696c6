//! `docs`: rewrites the generated parts of `docs/reference` and `docs/decisions`.

use crate::accept::ACCEPT;
use crate::shell::cargo_command;

/// Runs `tests/tests/docs.rs` in accept mode: it rewrites pages that differ from the code.
pub(crate) fn run() -> anyhow::Result<()> {
    let (name, value) = ACCEPT;
    crate::shell::run_command(
        cargo_command(["test", "--quiet", "--package", "tests", "--test", "docs"]).env(name, value),
    )
}
