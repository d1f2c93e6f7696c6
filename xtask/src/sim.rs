//! `sim`: runs the simulator with more seeds than the tests.

use crate::shell::cargo_command;

/// Passes the arguments to the simulator.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    crate::shell::run_command(
        cargo_command(["run", "--release", "--package", "tests", "--bin", "simulate", "--"]).args(args),
    )
}
