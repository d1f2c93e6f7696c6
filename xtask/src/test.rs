//! `test`: everything a change must pass, in one command.

use crate::check;
use crate::prerequisite::{NEXTEST, ensure_postgres, ensure_python};
use crate::shell::cargo;

/// The gates of `check`, then every test, then a short storm; arguments go to the test runner.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    NEXTEST.ensure()?;
    let python = ensure_python()?;
    ensure_postgres(&python)?;
    check::gates()?;
    // Tests of the command line use the binary that lies beside their own.
    crate::shell::run(&mut cargo(["build", "--package", "noetl"]))?;
    // One server for the whole run; it is stopped however the run ends.
    let beside = [
        "run",
        "--quiet",
        "--package",
        "tests",
        "--bin",
        "with_postgres",
        "--",
    ];
    crate::shell::run(
        cargo(beside)
            .args(["cargo", "nextest", "run", "--workspace", "--no-fail-fast"])
            .args(args)
            .env("NOETL_TEST_PYTHON", python),
    )?;
    // Alone on the machine: it is about time, and about processes that get none.
    crate::e2e::run(&[])
}
