//! The library of DuckDB, which `cargo xtask test` downloads into the environment of the tests.

use std::path::PathBuf;

use super::program::environment_dir;

/// Path of the library.
pub fn duckdb() -> PathBuf {
    let folder = environment_dir().join("duckdb");
    let files = ["libduckdb.so", "libduckdb.dylib"].map(|name| folder.join(name));
    let library = files.into_iter().find(|file| file.is_file());
    library.expect("libduckdb not found: run `cargo xtask test`, which downloads it from npm")
}
