//! `fmt`: formats the workspace with rustfmt.

use crate::shell::cargo_command;

/// Formats all files.
pub(crate) fn run() -> anyhow::Result<()> {
    crate::shell::run_command(&mut cargo_command(["fmt", "--all"]))
}
