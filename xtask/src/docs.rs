//! `docs`: rewrites the generated parts of `docs/reference` and `docs/decisions`, and the list of licenses.

use crate::accept::ACCEPT;
use crate::shell::{cargo_command, run_command};

/// Runs `tests/tests/docs` in accept mode: it rewrites pages that differ from the code. The page of the command line is
/// generated from the help of the binary.
pub(crate) fn run() -> anyhow::Result<()> {
    run_command(&mut cargo_command([
        "build",
        "--quiet",
        "--workspace",
        "--bin",
        "noetl",
    ]))?;
    let (name, value) = ACCEPT;
    run_command(cargo_command(["test", "--quiet", "--workspace", "--test", "docs"]).env(name, value))
}
