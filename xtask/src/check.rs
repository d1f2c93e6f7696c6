//! `check`: the checks that every commit must pass, without the tests.

use crate::prerequisite::DENY;
use crate::shell::cargo;

/// Checks format, lints, dependencies and project rules.
pub(crate) fn run() -> anyhow::Result<()> {
    gates()?;
    crate::shell::run(&mut cargo([
        "test",
        "--quiet",
        "--package",
        "tests",
        "--test",
        "tidy",
    ]))
}

/// Checks format, lints and dependencies.
pub(crate) fn gates() -> anyhow::Result<()> {
    DENY.ensure()?;
    for gate in [
        &["fmt", "--all", "--check"][..],
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
        // Without `advisories`: that check needs a database from the internet; see deny.toml.
        &["deny", "check", "bans", "licenses", "sources"],
    ] {
        crate::shell::run(&mut cargo(gate.iter().copied()))?;
    }
    Ok(())
}
