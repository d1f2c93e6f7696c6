//! One test for each conformance case, run by the engine alone: the log is the expected one, and the execution ends.
//! With `NOETL_ACCEPT` set, the expected logs are rewritten for review.

use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use tests::conformance::{Case, case_folders, case_name, run_case};

#[expect(
    clippy::disallowed_methods,
    reason = "accepting is requested through the environment, because test runners pass no flags"
)]
fn accepts() -> bool {
    std::env::var_os("NOETL_ACCEPT").is_some()
}

fn check_case(folder: &Path) -> Result<(), Failed> {
    let case = Case::load(folder)?;
    let result = run_case(&case)?;
    if !result.status.is_terminal() {
        return Err(format!("the execution is {}, not ended", result.status.name()).into());
    }
    if accepts() {
        return Ok(case.accept(&result.text)?);
    }
    match case.expected() {
        Some(expected) if expected == result.text => Ok(()),
        Some(expected) => Err(first_difference(&expected, &result.text).into()),
        None => Err(
            "the case has no expected log; run it with NOETL_ACCEPT=1 and review the file".into(),
        ),
    }
}

/// The first lines that differ.
fn first_difference(expected: &str, actual: &str) -> String {
    let mut lines = expected.lines().zip(actual.lines()).enumerate();
    let first = lines.find(|(_, (expected, actual))| expected != actual);
    match first {
        Some((line, (expected, actual))) => {
            format!(
                "line {}:\n  expected {expected}\n  found    {actual}",
                line + 1
            )
        }
        None => "one log is longer than the other".to_owned(),
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = case_folders().into_iter().map(|folder| {
        let name = case_name(&folder);
        Trial::test(name, move || check_case(&folder))
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
