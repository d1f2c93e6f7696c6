//! `fmt`: formats the workspace with rustfmt's defaults.

use crate::shell::cargo;

/// Rewrites every file that is not formatted.
pub(crate) fn run() -> anyhow::Result<()> {
    crate::shell::run(&mut cargo(["fmt", "--all"]))
}
