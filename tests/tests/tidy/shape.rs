//! Layout of files: length, module documentation, and the content of `mod.rs` and `lib.rs`.

use crate::source_files::{SourceFile, TidyFinding, assert_catches, assert_clean, assert_passes};

const LINES_MAX: usize = 600;

fn files_stay_below_the_wall(files: &[SourceFile]) -> Vec<TidyFinding> {
    files
        .iter()
        .filter(|file| file.is_rust() && !file.is_test_code())
        .filter(|file| file.text.lines().count() > LINES_MAX)
        .map(|file| {
            let lines = file.text.lines().count();
            file.finding(
                LINES_MAX,
                format!("{lines} lines; the maximum is {LINES_MAX}"),
            )
        })
        .collect()
}

fn files_open_with_their_purpose(files: &[SourceFile]) -> Vec<TidyFinding> {
    files
        .iter()
        .filter(|file| file.is_rust())
        .filter(|file| {
            let first = file.text.lines().next().unwrap_or_default();
            first
                .strip_prefix("//! ")
                .is_none_or(|purpose| purpose.trim().len() < 10)
        })
        .map(|file| {
            file.finding(
                1,
                "the first line must be a `//!` comment that describes the module",
            )
        })
        .collect()
}

/// `mod.rs` and `lib.rs` contain only documentation, `mod` lines and exports.
fn entrances_hold_no_logic(files: &[SourceFile]) -> Vec<TidyFinding> {
    files
        .iter()
        .filter(|file| matches!(file.name(), "mod.rs" | "lib.rs"))
        .flat_map(|file| {
            items(&file.text)
                .into_iter()
                .filter(|(_, item)| !is_entrance_item(item))
                .map(|(line, item)| {
                    let head: String = item.chars().take(40).collect();
                    file.finding(line, format!("move `{head}` to a file of its own"))
                })
                .take(1)
        })
        .collect()
}

/// Items of a file, each as one line without comments, with the number of its first line.
fn items(text: &str) -> Vec<(usize, String)> {
    let mut items = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with("//") {
            continue;
        }
        let (_, item) = open.get_or_insert_with(|| (index + 1, String::new()));
        item.push_str(line);
        let is_attribute = item.starts_with('#');
        let is_import = item.starts_with("use ") || item.contains(" use ");
        let is_complete = line.ends_with(';')
            || (line.ends_with('{') && !is_import)
            || (is_attribute && line.ends_with(']'));
        if is_complete {
            items.extend(open.take());
        }
    }
    items.extend(open);
    items
}

fn is_entrance_item(item: &str) -> bool {
    if item.starts_with("#[") || item.starts_with("#![") {
        return true;
    }
    let item = match item.strip_prefix("pub(") {
        Some(rest) => rest
            .split_once(')')
            .map_or("", |(_, rest)| rest.trim_start()),
        None => item.strip_prefix("pub ").unwrap_or(item),
    };
    item.starts_with("use ") || (item.starts_with("mod ") && item.ends_with(';'))
}

#[test]
fn no_file_is_longer_than_the_wall() {
    assert_clean(files_stay_below_the_wall);
}

#[test]
fn every_file_opens_with_what_it_is_for() {
    assert_clean(files_open_with_their_purpose);
}

#[test]
fn entrances_hold_only_docs_modules_and_exports() {
    assert_clean(entrances_hold_no_logic);
}

#[test]
fn a_file_over_the_wall_is_caught() {
    let long = "//! A long module.\n".repeat(LINES_MAX + 1);
    assert_catches(
        files_stay_below_the_wall,
        &[("crates/model/src/long.rs", &long)],
    );
    assert_passes(
        files_stay_below_the_wall,
        &[("crates/model/src/long/tests.rs", &long)],
    );
}

#[test]
fn a_file_without_a_purpose_is_caught() {
    assert_catches(
        files_open_with_their_purpose,
        &[
            ("crates/model/src/a.rs", "use std::fmt;\n"),
            ("crates/model/src/b.rs", "//! x\n"),
            ("crates/model/src/c.rs", ""),
        ],
    );
}

#[test]
fn logic_in_an_entrance_is_caught() {
    assert_catches(
        entrances_hold_no_logic,
        &[
            (
                "crates/model/src/lib.rs",
                "//! A crate of the project.\n\npub fn go() {}\n",
            ),
            (
                "crates/model/src/x/mod.rs",
                "//! A module directory.\nmod a {\n    fn b() {}\n}\n",
            ),
            (
                "crates/model/src/y/mod.rs",
                "//! A module directory.\nconst A: u8 = 1;\n",
            ),
        ],
    );
    assert_passes(
        entrances_hold_no_logic,
        &[(
            "crates/model/src/lib.rs",
            "//! A crate of the project.\n#![cfg_attr(\n    test,\n    allow(clippy::unwrap_used)\n)]\nmod a;\npub use a::{\n    B,\n    C,\n};\n#[cfg(test)]\npub(crate) mod testing;\n",
        )],
    );
}
