//! `fmt`: formats the workspace with rustfmt.

use crate::shell::cargo;

/// Formats all files.
pub(crate) fn run() -> anyhow::Result<()> {
    crate::shell::run(&mut cargo(["fmt", "--all"]))
}
