//! Purity: `model`, `language`, `pipeline` and `engine` perform no I/O; only some crates contain SQL or unsafe code.

use regex::Regex;

use crate::dependencies::{dependencies, manifests};
use crate::source_files::{SourceFile, TidyFinding, assert_catches, assert_clean, assert_passes};

const PURE_CRATES: &[&str] = &["model", "language", "pipeline", "engine"];
const SQL_CRATES: &[&str] = &["store", "results", "tools", "integrations"];

/// Libraries for async code, I/O and random numbers.
const IMPURE_LIBRARIES: &[&str] = &[
    "tokio",
    "tokio-util",
    "async-trait",
    "futures-util",
    "reqwest",
    "rustls",
    "rusqlite",
    "rustix",
    "tempfile",
    "rand",
    "getrandom",
    "fastrand",
    "uuid",
    "tracing",
];

fn deciding_code_reaches_nothing(files: &[SourceFile]) -> Vec<TidyFinding> {
    let outside = Regex::new(
        r"\b(?:tokio|rand|reqwest|rusqlite)::|\bstd::(?:fs|net|env|process|thread)\b|\bstd::\{[^}]*\b(?:fs|net|env|process|thread)\b|\bSystemTime\b|\b(?:Instant|Timestamp|Zoned)::now\b|\basync (?:fn|move)\b|\.await\b",
    )
    .expect("the pattern is valid");
    let is_judged = |file: &&SourceFile| {
        file.is_rust() && !file.is_test_code() && file.crate_name().is_some_and(|name| PURE_CRATES.contains(&name))
    };
    let mut findings = Vec::new();
    for file in files.iter().filter(is_judged) {
        for (number, line) in file.code_lines() {
            if let Some(matched) = outside.find(line) {
                findings.push(file.finding(number, format!("`{}` in a pure crate", matched.as_str())));
            }
        }
    }
    findings
}

fn deciding_crates_need_nothing_impure(files: &[SourceFile]) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for (name, manifest) in manifests(files).filter(|(name, _)| PURE_CRATES.contains(name)) {
        for dependency in dependencies(manifest) {
            if IMPURE_LIBRARIES.contains(&dependency.as_str()) {
                findings.push(manifest.finding(
                    1,
                    format!("`{name}` is a pure crate and must not depend on `{dependency}`"),
                ));
            }
        }
    }
    findings
}

fn sql_stays_with_the_databases(files: &[SourceFile]) -> Vec<TidyFinding> {
    let sql = Regex::new(
        r"\bSELECT\s.+\sFROM\b|\bINSERT INTO\b|\bDELETE FROM\b|\bCREATE (?:TABLE|INDEX|VIEW)\b|\bUPDATE \w+ SET\b|\bPRAGMA \w",
    )
    .expect("the pattern is valid");
    let is_judged = |file: &&SourceFile| {
        file.is_rust() && !file.is_test_code() && file.crate_name().is_some_and(|name| !SQL_CRATES.contains(&name))
    };
    let mut findings = Vec::new();
    for file in files.iter().filter(is_judged) {
        for (number, line) in file.code_lines() {
            if sql.is_match(line) {
                findings.push(file.finding(number, "SQL belongs in store, results, tools or integrations"));
            }
        }
    }
    findings
}

/// Modules that call C: the library of `DuckDB`, and one function of the allocator.
const UNSAFE_PATHS: [&str; 2] = ["crates/integrations/src/duckdb/ffi/", "crates/cli/src/memory.rs"];

fn unsafe_code_stays_in_its_rooms(files: &[SourceFile]) -> Vec<TidyFinding> {
    let lifted = Regex::new(r"\bunsafe (?:\{|fn|impl|extern)|\bunsafe_code\b").expect("the pattern is valid");
    // The parent module declares `ffi` with an `expect(unsafe_code)` and its reason.
    let is_judged = |file: &&SourceFile| {
        file.is_rust()
            && !UNSAFE_PATHS.iter().any(|room| file.path.starts_with(room))
            && file.path != "crates/integrations/src/duckdb/mod.rs"
            && !file.path.starts_with("tests/tests/tidy/")
    };
    let mut findings = Vec::new();
    for file in files.iter().filter(is_judged) {
        for (number, line) in file.code_lines() {
            if lifted.is_match(line) {
                findings.push(file.finding(number, "unsafe code is only allowed in the modules of `UNSAFE_ROOMS`"));
            }
        }
    }
    findings
}

#[test]
fn unsafe_code_is_in_its_rooms() {
    assert_clean(unsafe_code_stays_in_its_rooms);
}

#[test]
fn unsafe_code_in_another_crate_is_caught() {
    assert_catches(
        unsafe_code_stays_in_its_rooms,
        &[
            ("crates/server/src/a.rs", "    let a = unsafe { *b };\n"),
            (
                "crates/tools/src/b.rs",
                "#[expect(unsafe_code, reason = \"x\")]\nmod c;\n",
            ),
        ],
    );
    assert_passes(
        unsafe_code_stays_in_its_rooms,
        &[(
            "crates/integrations/src/duckdb/ffi/a.rs",
            "    let a = unsafe { *b };\n",
        )],
    );
}

#[test]
fn pure_crates_reach_nothing_outside() {
    assert_clean(deciding_code_reaches_nothing);
}

#[test]
fn pure_crates_depend_on_nothing_impure() {
    assert_clean(deciding_crates_need_nothing_impure);
}

#[test]
fn sql_is_written_only_where_databases_are() {
    assert_clean(sql_stays_with_the_databases);
}

#[test]
fn reaching_outside_is_caught() {
    assert_catches(
        deciding_code_reaches_nothing,
        &[
            ("crates/engine/src/a.rs", "use std::fs;\n"),
            ("crates/engine/src/b.rs", "use std::{collections::BTreeMap, env};\n"),
            ("crates/model/src/c.rs", "    let now = Timestamp::now();\n"),
            ("crates/pipeline/src/d.rs", "pub async fn next() {}\n"),
            (
                "crates/engine/src/e.rs",
                "    let started = std::time::SystemTime::UNIX_EPOCH;\n",
            ),
        ],
    );
    assert_passes(
        deciding_code_reaches_nothing,
        &[
            (
                "crates/engine/src/a.rs",
                "// `std::fs` is not allowed here.\nuse std::fmt;\n",
            ),
            (
                "crates/engine/src/b.rs",
                "fn a() {}\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n",
            ),
            ("crates/store/src/c.rs", "use std::fs;\n"),
        ],
    );
}

#[test]
fn an_impure_dependency_is_caught() {
    assert_catches(
        deciding_crates_need_nothing_impure,
        &[("crates/engine/Cargo.toml", "[dependencies]\ntokio.workspace = true\n")],
    );
    assert_passes(
        deciding_crates_need_nothing_impure,
        &[("crates/store/Cargo.toml", "[dependencies]\ntokio.workspace = true\n")],
    );
}

#[test]
fn sql_in_another_crate_is_caught() {
    assert_catches(
        sql_stays_with_the_databases,
        &[
            ("crates/server/src/a.rs", "    let sql = \"SELECT seq FROM log\";\n"),
            (
                "crates/cli/src/b.rs",
                "    db.execute(\"INSERT INTO log VALUES (?1)\")?;\n",
            ),
        ],
    );
    assert_passes(
        sql_stays_with_the_databases,
        &[("crates/store/src/a.rs", "    let sql = \"SELECT seq FROM log\";\n")],
    );
}
