//! Prerequisites of the commands: two cargo programs, a private Python environment, Postgres and DuckDB.
//!
//! Missing ones are installed from their registries; if that fails, the error names what to install.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::shell::{cargo_command, command_succeeds, run_command, target_directory, workspace_root};

/// A cargo subcommand.
pub(crate) struct CargoProgram {
    /// Name of the subcommand, such as `nextest`.
    subcommand: &'static str,
    /// Crate that provides it.
    crate_name: &'static str,
}

pub(crate) const NEXTEST: CargoProgram = CargoProgram {
    subcommand: "nextest",
    crate_name: "cargo-nextest",
};
pub(crate) const DENY: CargoProgram = CargoProgram {
    subcommand: "deny",
    crate_name: "cargo-deny",
};

impl CargoProgram {
    /// Installs it if it is missing.
    pub(crate) fn ensure(&self) -> anyhow::Result<()> {
        if command_succeeds(&mut cargo_command([self.subcommand, "--version"])) {
            return Ok(());
        }
        run_command(&mut cargo_command(["install", self.crate_name, "--locked"])).with_context(|| {
            format!(
                "cannot install {0}; install it manually: cargo install {0} --locked",
                self.crate_name
            )
        })
    }
}

/// Returns the interpreter of the private Python environment; creates or updates it from `tests/requirements.txt`.
pub(crate) fn ensure_python() -> anyhow::Result<PathBuf> {
    if !command_succeeds(Command::new("python3").arg("--version")) {
        bail!("python3 not found; the tests run playbooks with `kind: python`, so install Python 3");
    }
    let requirements = workspace_root().join("tests/requirements.txt");
    let requirements_text =
        fs::read_to_string(&requirements).with_context(|| format!("cannot read {}", requirements.display()))?;
    let environment = target_directory()?.join("test-env");
    let python = environment.join("bin/python");
    // Written last, so that an incomplete environment is created again.
    let stamp = environment.join("requirements.installed");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == requirements_text)
        && command_succeeds(Command::new(&python).arg("--version"))
    {
        return Ok(python);
    }
    make_environment(&environment, &python, &requirements)?;
    fs::write(&stamp, requirements_text).with_context(|| format!("cannot write {}", stamp.display()))?;
    Ok(python)
}

fn make_environment(environment: &Path, python: &Path, requirements: &Path) -> anyhow::Result<()> {
    run_command(Command::new("python3").args(["-m", "venv", "--clear"]).arg(environment))
        .context("cannot create a Python environment; install Python's venv module (Debian: python3-venv)")?;
    run_command(
        Command::new(python)
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--requirement",
            ])
            .arg(requirements),
    )
    .context("cannot install the packages of tests/requirements.txt from PyPI")
}

/// Ensures that Postgres is available: installed on the machine, or from a Python package.
pub(crate) fn ensure_postgres(python: &Path) -> anyhow::Result<()> {
    let is_packaged = Path::new("/usr/lib/postgresql").is_dir();
    if is_packaged || command_succeeds(Command::new("initdb").arg("--version")) {
        return Ok(());
    }
    let is_in_package = "import pgserver, pathlib, sys; sys.exit(not (pathlib.Path(pgserver.__file__).parent / 'pginstall/bin/initdb').exists())";
    if command_succeeds(Command::new(python).args(["-c", is_in_package])) {
        return Ok(());
    }
    run_command(Command::new(python).args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "pgserver",
    ]))
    .context("Postgres not found, and cannot install it from PyPI; install it (Debian: postgresql)")
}

/// Version of the DuckDB library that tests and benchmarks load.
const DUCKDB_VERSION: &str = "1.5.6-r.1";

/// Downloads the DuckDB library from its Node.js package into the Python environment.
pub(crate) fn ensure_duckdb() -> anyhow::Result<()> {
    let folder = target_directory()?.join("test-env/duckdb");
    // Written last, so that an interrupted download is repeated.
    let stamp = folder.join("version");
    if fs::read_to_string(&stamp).is_ok_and(|version| version.trim() == DUCKDB_VERSION) {
        return Ok(());
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let machine = match std::env::consts::ARCH {
        "aarch64" => "arm64",
        _ => "x64",
    };
    let package = format!("@duckdb/node-bindings-{system}-{machine}@{DUCKDB_VERSION}");
    let remedy = "cannot download the DuckDB library, which the tests need, from npm: install `npm` (Debian: npm; it comes with Node.js) and check that it can reach registry.npmjs.org";
    run_command(
        Command::new("npm")
            .args(["pack", "--silent", &package])
            .current_dir(&folder),
    )
    .context(remedy)?;
    let archive = fs::read_dir(&folder)?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "tgz"))
        .context(remedy)?;
    run_command(
        Command::new("tar")
            .args(["--strip-components=1", "-xzf"])
            .arg(&archive)
            .current_dir(&folder),
    )
    .context(remedy)?;
    fs::remove_file(&archive)?;
    fs::write(&stamp, DUCKDB_VERSION).with_context(|| format!("cannot write {}", stamp.display()))
}
