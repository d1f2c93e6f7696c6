//! `accept`: rewrites the expectations of conformance and golden tests, so that you can review the difference.

use crate::prerequisite::{NEXTEST, ensure_python};
use crate::shell::cargo_command;

/// Variable that makes a test write its expectation instead of comparing with it.
pub(crate) const ACCEPT: (&str, &str) = ("NOETL_ACCEPT", "1");

/// Runs the tests in accept mode; arguments are filters of the test runner.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    NEXTEST.ensure()?;
    let python = ensure_python()?;
    let (name, value) = ACCEPT;
    crate::shell::run_command(
        cargo_command(["nextest", "run", "--package", "tests", "--no-fail-fast"])
            .args(args)
            .env(name, value)
            .env("NOETL_TEST_PYTHON", python),
    )
}
