//! Folds: a file that computes state from events names every event, so a new one does not compile until each of them
//! handles it.

use crate::source_files::{SourceFile, TidyFinding, assert_catches, assert_clean, assert_passes};

/// Files that compute something from every event of a log.
const FOLD_FILES: &[&str] = &[
    "crates/cli/src/view/fold.rs",
    "crates/engine/src/reuse.rs",
    "crates/engine/src/state/fold.rs",
    "crates/engine/src/state/fold_work.rs",
    "crates/engine/src/state/reuse.rs",
    "crates/model/src/manifest.rs",
    "crates/pipeline/src/fold.rs",
    "crates/server/src/body_gc/live_references.rs",
    "crates/server/src/result_reader/entries.rs",
    "crates/server/src/result_reader/located.rs",
    "crates/store/src/iterations.rs",
    "crates/store/src/projections.rs",
];

fn folds_name_every_event(files: &[SourceFile]) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for file in files {
        if !FOLD_FILES.contains(&file.path.as_str()) {
            continue;
        }
        let lines: Vec<(usize, &str)> = file.code_lines().collect();
        for (index, (_, line)) in lines.iter().enumerate() {
            if line.contains("match ") && line.ends_with('{') {
                findings.extend(find_catch_all(file, indent(line), &lines[index + 1..]));
            }
        }
    }
    findings
}

/// The catch-all arm of a `match` on events, given the indentation of the `match` and the lines after it. In formatted
/// code, the arms are indented by four more spaces, and the closing brace is indented like the `match`.
fn find_catch_all(file: &SourceFile, depth: usize, lines: &[(usize, &str)]) -> Option<TidyFinding> {
    let is_inside = |(_, line): &&(usize, &str)| line.trim().is_empty() || indent(line) > depth;
    let body = lines.iter().take_while(is_inside);
    let arms: Vec<_> = body.filter(|(_, line)| indent(line) == depth + 4).collect();
    if !arms.iter().any(|(_, arm)| arm.contains("EventBody::")) {
        return None;
    }
    let catch_all = arms.iter().find(|(_, arm)| {
        let pattern = arm.trim_start();
        pattern.starts_with("_ ") || pattern.starts_with("(_, ")
    });
    catch_all.map(|(number, _)| file.finding(*number, "a fold must name every event; list the events that it ignores"))
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[test]
fn every_fold_names_every_event() {
    assert_clean(folds_name_every_event);
}

#[test]
fn every_fold_file_exists() {
    let files = crate::source_files::source_files();
    for path in FOLD_FILES {
        let exists = files.iter().any(|file| file.path == *path);
        assert!(exists, "`{path}` is in `FOLD_FILES` and does not exist");
    }
}

#[test]
fn a_catch_all_arm_in_a_fold_is_caught() {
    const CATCH_ALL: &str = "fn fold() {\n    match &event.body {\n        EventBody::StepDone(_) => {\n            a();\n        }\n\n        _ => {}\n    }\n}\n";
    const GUARDED: &str = "fn fold() {\n    let a = match event.body {\n        EventBody::StepDone(_) => 1,\n        _ if b => 2,\n    };\n}\n";
    assert_catches(
        folds_name_every_event,
        &[
            ("crates/pipeline/src/fold.rs", CATCH_ALL),
            ("crates/store/src/projections.rs", GUARDED),
        ],
    );
    assert_passes(
        folds_name_every_event,
        &[
            ("crates/server/src/loading.rs", CATCH_ALL),
            (
                "crates/cli/src/view/fold.rs",
                "fn fold() {\n    match &event.body {\n        EventBody::StepDone(_) => match a {\n            Some(_) => {}\n            _ => {}\n        },\n        EventBody::StepFailed(_) => {}\n    }\n}\n",
            ),
        ],
    );
}
