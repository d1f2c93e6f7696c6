//! `check`: the checks that every commit must pass, without the tests.

use crate::prerequisite::DENY;
use crate::shell::cargo_command;

/// Checks format, lints, dependencies and project rules.
pub(crate) fn run() -> anyhow::Result<()> {
    run_gates()?;
    crate::shell::run_command(&mut cargo_command([
        "test",
        "--quiet",
        "--package",
        "tests",
        "--test",
        "tidy",
    ]))
}

/// Checks format, lints and dependencies.
pub(crate) fn run_gates() -> anyhow::Result<()> {
    DENY.ensure()?;
    for gate in [
        &["fmt", "--all", "--check"][..],
        &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
        // Without `advisories`: that check needs a database from the internet; see deny.toml.
        &["deny", "check", "bans", "licenses", "sources"],
    ] {
        crate::shell::run_command(&mut cargo_command(gate.iter().copied()))?;
    }
    Ok(())
}
