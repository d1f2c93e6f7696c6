//! `check`: the gates that every commit passes, without the tests.

use crate::prerequisite::DENY;
use crate::shell::cargo;

/// Format, lints, dependencies, house rules.
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

/// The gates that are not tests: format, lints, dependencies.
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
        // Advisories need a database that only a machine with free access to the net can fetch; see deny.toml.
        &["deny", "check", "bans", "licenses", "sources"],
    ] {
        crate::shell::run(&mut cargo(gate.iter().copied()))?;
    }
    Ok(())
}
