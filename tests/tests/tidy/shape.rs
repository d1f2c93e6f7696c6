//! Layout of files: length, module documentation, and the content of `mod.rs` and `lib.rs`.

use crate::source_files::{SourceFile, TidyFinding, assert_catches, assert_clean, assert_passes};

const LINES_MAX: usize = 600;

fn find_long_files(files: &[SourceFile]) -> Vec<TidyFinding> {
    files
        .iter()
        .filter(|file| file.is_rust() && !file.is_test_code())
        .filter(|file| file.text.lines().count() > LINES_MAX)
        .map(|file| {
            let lines = file.text.lines().count();
            file.finding(LINES_MAX, format!("{lines} lines; the maximum is {LINES_MAX}"))
        })
        .collect()
}

fn find_missing_module_comments(files: &[SourceFile]) -> Vec<TidyFinding> {
    files
        .iter()
        .filter(|file| file.is_rust())
        .filter(|file| {
            let first = file.text.lines().next().unwrap_or_default();
            first
                .strip_prefix("//! ")
                .is_none_or(|purpose| purpose.trim().len() < 10)
        })
        .map(|file| file.finding(1, "the first line must be a `//!` comment that describes the module"))
        .collect()
}

/// `mod.rs` and `lib.rs` contain only documentation, `mod` lines and exports.
fn find_logic_in_lib_and_mod_files(files: &[SourceFile]) -> Vec<TidyFinding> {
    files
        .iter()
        .filter(|file| matches!(file.name(), "mod.rs" | "lib.rs"))
        .flat_map(|file| {
            items(&file.text)
                .into_iter()
                .filter(|(_, item)| !is_module_item(item))
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
        let is_complete =
            line.ends_with(';') || (line.ends_with('{') && !is_import) || (is_attribute && line.ends_with(']'));
        if is_complete {
            items.extend(open.take());
        }
    }
    items.extend(open);
    items
}

fn is_module_item(item: &str) -> bool {
    if item.starts_with("#[") || item.starts_with("#![") {
        return true;
    }
    let item = match item.strip_prefix("pub(") {
        Some(tail) => tail.split_once(')').map_or("", |(_, tail)| tail.trim_start()),
        None => item.strip_prefix("pub ").unwrap_or(item),
    };
    item.starts_with("use ") || (item.starts_with("mod ") && item.ends_with(';'))
}

#[test]
fn no_file_is_longer_than_600_lines() {
    assert_clean(find_long_files);
}

#[test]
fn every_file_starts_with_a_module_comment() {
    assert_clean(find_missing_module_comments);
}

#[test]
fn lib_and_mod_files_contain_only_docs_modules_and_exports() {
    assert_clean(find_logic_in_lib_and_mod_files);
}

#[test]
fn a_file_of_601_lines_is_reported() {
    let long = "//! A long module.\n".repeat(LINES_MAX + 1);
    assert_catches(find_long_files, &[("crates/model/src/long.rs", &long)]);
    assert_passes(find_long_files, &[("crates/model/src/long/tests.rs", &long)]);
}

#[test]
fn a_file_without_a_module_comment_is_reported() {
    assert_catches(
        find_missing_module_comments,
        &[
            ("crates/model/src/a.rs", "use std::fmt;\n"),
            ("crates/model/src/b.rs", "//! x\n"),
            ("crates/model/src/c.rs", ""),
        ],
    );
}

#[test]
fn logic_in_a_lib_or_mod_file_is_reported() {
    assert_catches(
        find_logic_in_lib_and_mod_files,
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
        find_logic_in_lib_and_mod_files,
        &[(
            "crates/model/src/lib.rs",
            "//! A crate of the project.\n#![cfg_attr(\n    test,\n    allow(clippy::unwrap_used)\n)]\nmod a;\npub use a::{\n    B,\n    C,\n};\n#[cfg(test)]\npub(crate) mod testing;\n",
        )],
    );
}
