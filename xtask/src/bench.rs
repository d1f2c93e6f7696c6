//! `bench`: builds the measuring program, and what it measures, with optimisation and runs it.

use crate::shell::cargo;

/// Arguments go to the measuring program.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    if args.iter().any(|arg| arg == "--distributed") {
        crate::shell::run(&mut cargo(["build", "--release", "--package", "noetl"]))?;
    }
    if args.iter().any(|arg| arg == "--results") {
        // S3 is a program of the tests' own environment.
        crate::prerequisite::ensure_python()?;
    }
    crate::shell::run(cargo(["run", "--release", "--package", "bench", "--"]).args(args))
}
