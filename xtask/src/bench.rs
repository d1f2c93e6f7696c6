//! `bench`: builds the measuring program, and what it measures, with optimisation and runs it.

use crate::shell::{cargo, run as shell};

/// Arguments go to the measuring program.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
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
