//! `sim`: runs the simulator over more seeds than the tests do.

use crate::shell::cargo;

/// Arguments go to the simulator.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    crate::shell::run(
        cargo([
            "run",
            "--release",
            "--package",
            "tests",
            "--bin",
            "simulate",
            "--",
        ])
        .args(args),
    )
}
