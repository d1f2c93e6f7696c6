//! One test for each conformance case, run by a server and a worker on a store in memory and in virtual time: the log is
//! the expected one, and the execution ends. With `NOETL_ACCEPT` set, expected logs that differ are rewritten for review.

use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use tests::conformance::{Case, CaseDeployment, case_folders, case_name, compare_log, run_case_in_virtual_time};

#[expect(
    clippy::disallowed_methods,
    reason = "accepting is requested through the environment, because test runners pass no flags"
)]
fn accepts() -> bool {
    std::env::var_os("NOETL_ACCEPT").is_some()
}

fn check_case(folder: &Path) -> Result<(), Failed> {
    let case = Case::load(folder)?;
    let result = run_case_in_virtual_time(&case, CaseDeployment::Memory)?;
    if !result.status.is_terminal() {
        return Err(format!("the execution is {}, not ended", result.status.name()).into());
    }
    match compare_log(&case, &result.text) {
        Err(_) if accepts() => Ok(case.accept(&result.text)?),
        compared => Ok(compared?),
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
