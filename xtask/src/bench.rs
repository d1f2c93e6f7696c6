//! `bench`: builds the measuring program with optimisation and runs it.

use crate::shell::cargo;

/// Arguments go to the measuring program.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    crate::shell::run(cargo(["run", "--release", "--package", "bench", "--"]).args(args))
}
