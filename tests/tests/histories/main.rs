//! Recorded histories: a log that an earlier version of the program wrote still decodes and folds to the state that
//! was recorded with it.
//!
//! With `NOETL_RECORD` set to the name of a folder of `tests/histories`, its scenario is run by the binary and recorded.

mod history;
mod recorder;
mod state_summary;

use std::fs;
use std::path::{Path, PathBuf};

use crate::history::History;

/// Name of the recorded file in the folder of a history.
const LOG_FILE: &str = "log.jsonl";

fn histories_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("histories")
}

/// The folders of all histories, by name.
fn history_folders() -> Vec<PathBuf> {
    let entries = fs::read_dir(histories_dir()).expect("the folder of histories is readable");
    let paths = entries.map(|entry| entry.expect("the folder is readable").path());
    let mut folders: Vec<PathBuf> = paths.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

fn load_text(name: &str) -> String {
    let path = histories_dir().join(name).join(LOG_FILE);
    fs::read_to_string(&path).unwrap_or_else(|error| {
        panic!(
            "cannot read {}: {error}; record it with `NOETL_RECORD={name} cargo test --workspace --test histories`",
            path.display()
        )
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "a recording is requested through the environment, because test runners pass no flags"
)]
fn name_to_record() -> Option<String> {
    std::env::var("NOETL_RECORD").ok()
}

#[test]
fn every_recorded_history_folds_to_its_recorded_state() {
    if let Some(name) = name_to_record() {
        let folder = histories_dir().join(&name);
        let file = folder.join(LOG_FILE);
        assert!(
            !file.exists(),
            "{} exists and must not change: record another scenario under a new name",
            file.display()
        );
        let history = recorder::record(&folder);
        fs::write(&file, history.to_text()).expect("the folder of the history is writable");
    }
    let folders = history_folders();
    assert!(folders.len() >= 12, "too few histories found");
    for folder in folders {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let checked = History::parse(&load_text(&name)).and_then(|history| history.check());
        if let Err(error) = checked {
            panic!("history `{name}`: {error}");
        }
    }
}

#[test]
fn a_scenario_recorded_today_folds_to_its_state() {
    let history = recorder::record(&histories_dir().join("chain"));
    let text = history.to_text();
    let again = History::parse(&text).expect("a recorded history can be parsed");
    assert_eq!(again.to_text(), text);
    assert_eq!(again.check(), Ok(()));
}

#[test]
fn a_damaged_event_fails() {
    let text = load_text("chain");
    let damaged = text.replacen("step.scheduled", "step.done", 1);
    assert_ne!(damaged, text, "the history has no `step.scheduled`");
    let error = History::parse(&damaged).and_then(|history| history.check());
    let error = error.expect_err("the damage is reported");
    assert!(error.contains("checksum"), "{error}");
}

#[test]
fn a_missing_event_fails() {
    let text = load_text("chain");
    let without_second = text.lines().enumerate().filter(|(index, _)| *index != 1);
    let cut: Vec<&str> = without_second.map(|(_, line)| line).collect();
    let error = History::parse(&cut.join("\n")).and_then(|history| history.check());
    let error = error.expect_err("the gap is reported");
    assert!(error.contains("expected event"), "{error}");
}

#[test]
fn another_state_fails() {
    let text = load_text("chain");
    let other = text.replacen("\"COMPLETED\"", "\"FAILED\"", 1);
    assert_ne!(other, text, "the history has no status");
    let error = History::parse(&other).and_then(|history| history.check());
    let error = error.expect_err("the difference is reported");
    assert!(error.contains("status"), "{error}");
}

#[test]
fn a_damaged_snapshot_fails() {
    let text = load_text("loop-parallel");
    let mut history = History::parse(&text).expect("the history can be parsed");
    let snapshot = history
        .snapshots_mut()
        .next()
        .expect("the run is long enough for a snapshot");
    // The name of the field `generation`, as CBOR stores it.
    snapshot.bytes = snapshot
        .bytes
        .replacen("67656e65726174696f6e", "67656e65726174696f6f", 1);
    let error = history.check().expect_err("the damage is reported");
    assert!(error.contains("snapshot"), "{error}");
}
