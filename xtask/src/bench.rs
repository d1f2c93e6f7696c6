//! `bench`: builds the measuring program, and what it measures, with optimisation and runs it.

use crate::shell::cargo;

/// Arguments go to the measuring program.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    if args.iter().any(|arg| arg == "--distributed") {
        crate::shell::run(&mut cargo(["build", "--release", "--package", "noetl"]))?;
    }
    crate::shell::run(cargo(["run", "--release", "--package", "bench", "--"]).args(args))
}
