//! Invalid playbooks as data: for each `tests/broken/<name>.yaml`, `<name>.txt` has the exact diagnostics.
//!
//! With `NOETL_ACCEPT` set, the expected diagnostics are rewritten for review.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use language::diagnostic::{CODES, DiagnosticStyle};
use language::playbook::parse;

/// Codes that `tests/broken` cannot contain: `bombs` tests those whose playbooks are not small text files, `programs`
/// and `bodies` test those that only the command line reports, because it reads tool manifests and store settings.
const SHOWN_ELSEWHERE: &[&str] = &["E0001", "E0002", "E0127", "W219", "W233"];

fn cases_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("broken")
}

fn case_files() -> Vec<PathBuf> {
    let entries = fs::read_dir(cases_dir()).expect("the directory of invalid playbooks exists");
    let mut cases: Vec<PathBuf> = entries
        .map(|entry| entry.expect("the directory is readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    cases.sort();
    cases
}

fn render_diagnostics(case: &Path) -> String {
    let bytes = fs::read(case).expect("the playbook is readable");
    let name = case.file_name().expect("a case is a file");
    let parsed = parse(&name.to_string_lossy(), &bytes);
    let style = DiagnosticStyle {
        color: false,
        unicode: true,
    };
    let diagnostics = parsed.diagnostics.iter();
    diagnostics.map(|diagnostic| diagnostic.render(style)).collect()
}

#[expect(
    clippy::disallowed_methods,
    reason = "accepting is requested through the environment, because test runners pass no flags"
)]
fn accepts() -> bool {
    std::env::var_os("NOETL_ACCEPT").is_some()
}

#[test]
fn every_broken_playbook_is_explained_as_expected() {
    let mut wrong = Vec::new();
    for case in case_files() {
        let expectation = case.with_extension("txt");
        let actual = render_diagnostics(&case);
        if accepts() {
            fs::write(&expectation, &actual).expect("the expected diagnostics can be written");
        } else if fs::read_to_string(&expectation).ok().as_deref() != Some(actual.as_str()) {
            wrong.push(format!("{}:\n{actual}", case.display()));
        }
    }
    assert!(wrong.is_empty(), "not as expected:\n{}", wrong.join("\n"));
}

#[test]
fn every_broken_playbook_has_a_diagnostic() {
    for case in case_files() {
        assert!(!render_diagnostics(&case).is_empty(), "{}", case.display());
    }
    assert!(case_files().len() >= 60);
}

#[test]
fn every_code_is_reported_by_a_broken_playbook() {
    let rendered: String = case_files().iter().map(|case| render_diagnostics(case)).collect();
    let missing: BTreeSet<&str> = CODES
        .iter()
        .map(|entry| entry.code)
        .filter(|code| !SHOWN_ELSEWHERE.contains(code) && !rendered.contains(&format!("[{code}]")))
        .collect();
    assert!(missing.is_empty(), "no playbook has {missing:?}");
}

#[test]
fn every_example_is_valid_without_diagnostics() {
    let folder = cases_dir().join("../../examples");
    for entry in fs::read_dir(folder).expect("the directory of examples exists") {
        let path = entry.expect("the directory is readable").path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            assert_eq!(render_diagnostics(&path), "", "{}", path.display());
        }
    }
}
