//! DuckDB's library, which `cargo xtask test` fetches into the tests' own environment.

use std::path::PathBuf;

use super::program::environment;

/// Where the library is.
pub fn duckdb() -> PathBuf {
    let folder = environment().join("duckdb");
    let files = ["libduckdb.so", "libduckdb.dylib"].map(|name| folder.join(name));
    let found = files.into_iter().find(|file| file.is_file());
    found.expect("libduckdb is missing: run `cargo xtask test`, which fetches it from npm")
}
