//! `test`: everything a change must pass, in one command.

use crate::check;
use crate::prerequisite::{NEXTEST, ensure_python};
use crate::shell::cargo;

/// The gates of `check`, then every test; arguments go to the test runner.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    NEXTEST.ensure()?;
    let python = ensure_python()?;
    check::gates()?;
    // Tests of the command line use the binary that lies beside their own.
    crate::shell::run(&mut cargo(["build", "--package", "noetl"]))?;
    crate::shell::run(
        cargo(["nextest", "run", "--workspace", "--no-fail-fast"])
            .args(args)
            .env("NOETL_TEST_PYTHON", python),
    )
}
