//! `test`: runs everything that a change must pass.

use std::process::Command;

use crate::check;
use crate::prerequisite::{NEXTEST, ensure_duckdb, ensure_postgres, ensure_python};
use crate::shell::{cargo_command, run_command as shell, target_directory, workspace_root};
use crate::web_client::{check_client, ensure_browser};

/// Runs the checks, all tests, a short fault-injection test and a trial of the benchmarks. Passes the arguments to the
/// test runner.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    NEXTEST.ensure()?;
    let python = ensure_python()?;
    ensure_postgres(&python)?;
    ensure_duckdb()?;
    let browser = ensure_browser()?;
    check::run_gates()?;
    let client = check_client()?;
    // One build for everything: tests use the binaries in their own directory, and shared code is built once.
    shell(&mut cargo_command(["build", "--workspace", "--all-targets"]))?;
    let programs = target_directory()?.join("debug");
    // One Postgres server for all tests; `with_postgres` always stops it.
    shell(
        Command::new(programs.join("with_postgres"))
            .args(["cargo", "nextest", "run", "--workspace", "--no-fail-fast"])
            .args(args)
            .current_dir(workspace_root())
            .env("NOETL_TEST_PYTHON", &python)
            .env("NOETL_TEST_CLIENT", &client)
            .env("NOETL_TEST_BROWSER", browser),
    )?;
    // Not in parallel with the tests, because its timing is sensitive to load.
    shell(Command::new(programs.join("e2e")).current_dir(workspace_root()))?;
    // Checks only that the benchmarks run; the measurements are ignored.
    shell(
        Command::new(programs.join("bench"))
            .arg("--trial")
            .current_dir(workspace_root())
            .env("NOETL_TEST_PYTHON", &python),
    )
}
