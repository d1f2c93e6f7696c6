//! `e2e`: fault-injection test of a cluster of real processes; a checker verifies the runs afterwards.

use crate::prerequisite::{ensure_postgres, ensure_python};
use crate::shell::cargo_command;

/// Passes the arguments to the fault-injection test.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let python = ensure_python()?;
    ensure_postgres(&python)?;
    // The test starts the `noetl` binary in its own directory.
    crate::shell::run_command(&mut cargo_command(["build", "--package", "noetl"]))?;
    let storm = ["run", "--quiet", "--package", "tests", "--bin", "e2e", "--"];
    crate::shell::run_command(cargo_command(storm).args(args))
}
