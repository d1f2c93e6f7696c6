//! Every conformance case, run by the engine alone. With `NOETL_ACCEPT` set, expectations are rewritten for review.

use tests::conformance::{Case, cases, run};

#[expect(
    clippy::disallowed_methods,
    reason = "accepting is asked for through the environment, as test runners pass no flags"
)]
fn accepts() -> bool {
    std::env::var_os("NOETL_ACCEPT").is_some()
}

#[expect(
    clippy::disallowed_methods,
    reason = "one case is asked for through the environment, as test runners pass no flags"
)]
fn is_wanted(name: &str) -> bool {
    std::env::var("NOETL_CASE").map_or(true, |wanted| name.contains(&wanted))
}

fn check(case: &Case) -> Result<(), String> {
    let ran = run(case)?;
    if accepts() {
        return case.accept(&ran.text).map_err(|error| error.to_string());
    }
    match case.expected() {
        Some(expected) if expected == ran.text => Ok(()),
        Some(expected) => Err(difference(&expected, &ran.text)),
        None => Err("nothing is expected yet".to_owned()),
    }
}

/// The first lines that differ.
fn difference(expected: &str, actual: &str) -> String {
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

#[test]
fn every_case_leaves_the_log_that_is_expected() {
    let mut wrong = Vec::new();
    for folder in cases() {
        let case =
            Case::load(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        if !is_wanted(&case.name) {
            continue;
        }
        if let Err(why) = check(&case) {
            wrong.push(format!("{}: {why}", case.name));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} cases:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn every_case_ends() {
    for folder in cases() {
        let case =
            Case::load(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let ran = run(&case).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        assert!(
            ran.status.is_terminal(),
            "{} is {}",
            case.name,
            ran.status.name()
        );
    }
}
