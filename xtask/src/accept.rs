//! `accept`: rewrites what conformance and golden tests expect, so that the difference can be reviewed.

use crate::prerequisite::{NEXTEST, ensure_python};
use crate::shell::cargo;

/// The variable under which a test writes its expectation instead of comparing with it.
pub(crate) const ACCEPT: (&str, &str) = ("NOETL_ACCEPT", "1");

/// Arguments narrow the tests down, as the test runner's filters.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    NEXTEST.ensure()?;
    let python = ensure_python()?;
    let (name, value) = ACCEPT;
    crate::shell::run(
        cargo(["nextest", "run", "--package", "tests", "--no-fail-fast"])
            .args(args)
            .env(name, value)
            .env("NOETL_TEST_PYTHON", python),
    )
}
