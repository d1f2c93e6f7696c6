//! `bench`: builds the benchmark program and `noetl` in release mode and runs the benchmarks.

use crate::shell::{cargo_command, run_command as shell};

/// Passes the arguments to the benchmark program; `--client` measures the web client in a browser instead.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    if args.iter().any(|arg| arg == "--results") {
        // The S3 server is a program of the Python test environment.
        crate::prerequisite::ensure_python()?;
    }
    if args.iter().any(|arg| arg == "--transfer") {
        crate::prerequisite::ensure_duckdb()?;
    }
    // One build for both, so that shared dependencies are built once.
    shell(&mut cargo_command([
        "build",
        "--release",
        "--package",
        "noetl",
        "--package",
        "bench",
    ]))?;
    let release = crate::shell::target_directory()?.join("release");
    if args.iter().any(|arg| arg == "--client") {
        return crate::web_client::measure_client(&release.join("noetl"));
    }
    let program = release.join("bench");
    shell(std::process::Command::new(program).args(args))
}
