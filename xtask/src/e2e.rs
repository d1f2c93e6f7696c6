//! `e2e`: a cluster of real processes under fire, and an oracle over what is left.

use crate::prerequisite::{ensure_postgres, ensure_python};
use crate::shell::cargo;

/// Arguments go to the storm.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let python = ensure_python()?;
    ensure_postgres(&python)?;
    // The storm starts the binary that lies beside its own.
    crate::shell::run(&mut cargo(["build", "--package", "noetl"]))?;
    let storm = ["run", "--quiet", "--package", "tests", "--bin", "e2e", "--"];
    crate::shell::run(cargo(storm).args(args))
}
