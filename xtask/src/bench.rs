//! `bench`: builds the measuring program, and what it measures, with optimisation and runs it.

use crate::shell::{cargo, run as shell};

/// Arguments go to the measuring program.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    if args.iter().any(|arg| arg == "--results") {
        // S3 is a program of the tests' own environment.
        crate::prerequisite::ensure_python()?;
    }
    if args.iter().any(|arg| arg == "--transfer") {
        crate::prerequisite::ensure_duckdb()?;
    }
    // Both in one build, so that what they share is built once.
    shell(&mut cargo([
        "build",
        "--release",
        "--package",
        "noetl",
        "--package",
        "bench",
    ]))?;
    let program = crate::shell::target_directory()?.join("release/bench");
    shell(std::process::Command::new(program).args(args))
}
