//! `test`: everything a change must pass, in one command.

use std::process::Command;

use crate::check;
use crate::prerequisite::{NEXTEST, ensure_duckdb, ensure_postgres, ensure_python};
use crate::shell::{cargo, root, run as shell, target_directory};

/// The gates of `check`, then every test, a short storm, and a trial of what measures; arguments go to the test runner.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    NEXTEST.ensure()?;
    let python = ensure_python()?;
    ensure_postgres(&python)?;
    ensure_duckdb()?;
    check::gates()?;
    // Everything in one build: tests use the binaries that lie beside their own, and what both share is built once.
    shell(&mut cargo(["build", "--workspace", "--all-targets"]))?;
    let programs = target_directory()?.join("debug");
    // One server for the whole run; it is stopped however the run ends.
    shell(
        Command::new(programs.join("with_postgres"))
            .args(["cargo", "nextest", "run", "--workspace", "--no-fail-fast"])
            .args(args)
            .current_dir(root())
            .env("NOETL_TEST_PYTHON", &python),
    )?;
    // Alone on the machine: it is about time, and about processes that get none.
    shell(Command::new(programs.join("e2e")).current_dir(root()))?;
    // Not for the figures: what measures must not break unseen.
    shell(
        Command::new(programs.join("bench"))
            .arg("--trial")
            .current_dir(root())
            .env("NOETL_TEST_PYTHON", &python),
    )
}
