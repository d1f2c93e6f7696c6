//! What the verbs need besides the toolchain: two cargo programs, a private Python environment, Postgres, and DuckDB.
//!
//! What is missing is fetched from its registry by name; where that fails, the error says what to install.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::shell::{cargo, root, run, succeeds, target_directory};

/// A program that cargo finds as a subcommand.
pub(crate) struct CargoProgram {
    /// What cargo calls it: `nextest`.
    subcommand: &'static str,
    /// The crate that holds it.
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
    /// Installs it unless it is there.
    pub(crate) fn ensure(&self) -> anyhow::Result<()> {
        if succeeds(&mut cargo([self.subcommand, "--version"])) {
            return Ok(());
        }
        run(&mut cargo(["install", self.crate_name, "--locked"])).with_context(|| {
            format!(
                "{0} is missing and could not be installed; install it by hand: cargo install {0} --locked",
                self.crate_name
            )
        })
    }
}

/// The interpreter of the private Python environment, made from `tests/requirements.txt` unless it is up to date.
pub(crate) fn ensure_python() -> anyhow::Result<PathBuf> {
    if !succeeds(Command::new("python3").arg("--version")) {
        bail!("python3 is missing: the tests run playbooks with `kind: python`; install Python 3");
    }
    let requirements = root().join("tests/requirements.txt");
    let wanted = fs::read_to_string(&requirements)
        .with_context(|| format!("cannot read {}", requirements.display()))?;
    let environment = target_directory()?.join("test-env");
    let python = environment.join("bin/python");
    // Written last, so that an environment whose making was interrupted is made again.
    let stamp = environment.join("requirements.installed");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted)
        && succeeds(Command::new(&python).arg("--version"))
    {
        return Ok(python);
    }
    make_environment(&environment, &python, &requirements)?;
    fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))?;
    Ok(python)
}

fn make_environment(environment: &Path, python: &Path, requirements: &Path) -> anyhow::Result<()> {
    run(Command::new("python3")
        .args(["-m", "venv", "--clear"])
        .arg(environment))
    .context(
        "no Python environment could be made; install Python's venv module (Debian: python3-venv)",
    )?;
    run(Command::new(python)
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--requirement",
        ])
        .arg(requirements))
    .context("the packages of tests/requirements.txt could not be installed from PyPI")
}

/// Postgres's programs: those of the machine, else those that a Python package carries.
pub(crate) fn ensure_postgres(python: &Path) -> anyhow::Result<()> {
    let is_packaged = Path::new("/usr/lib/postgresql").is_dir();
    if is_packaged || succeeds(Command::new("initdb").arg("--version")) {
        return Ok(());
    }
    let carried = "import pgserver, pathlib, sys; sys.exit(not (pathlib.Path(pgserver.__file__).parent / 'pginstall/bin/initdb').exists())";
    if succeeds(Command::new(python).args(["-c", carried])) {
        return Ok(());
    }
    run(Command::new(python).args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "pgserver",
    ]))
    .context(
        "Postgres is missing and could not be fetched from PyPI; install it (Debian: postgresql)",
    )
}

/// The version of DuckDB's library that tests and measurements load.
const DUCKDB: &str = "1.5.6-r.1";

/// DuckDB's library, out of the package that carries it for Node, beside the Python environment.
pub(crate) fn ensure_duckdb() -> anyhow::Result<()> {
    let folder = target_directory()?.join("test-env/duckdb");
    // Written last, so that an unpacking that was interrupted is done again.
    let stamp = folder.join("version");
    if fs::read_to_string(&stamp).is_ok_and(|version| version.trim() == DUCKDB) {
        return Ok(());
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let machine = match std::env::consts::ARCH {
        "aarch64" => "arm64",
        _ => "x64",
    };
    let package = format!("@duckdb/node-bindings-{system}-{machine}@{DUCKDB}");
    let remedy = "cannot fetch DuckDB's library from npm, which the tests need: install `npm` (Debian: npm; it comes with Node.js) and see that it reaches registry.npmjs.org";
    run(Command::new("npm")
        .args(["pack", "--silent", &package])
        .current_dir(&folder))
    .context(remedy)?;
    let archive = fs::read_dir(&folder)?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|ending| ending == "tgz"))
        .context(remedy)?;
    run(Command::new("tar")
        .args(["--strip-components=1", "-xzf"])
        .arg(&archive)
        .current_dir(&folder))
    .context(remedy)?;
    fs::remove_file(&archive)?;
    fs::write(&stamp, DUCKDB).with_context(|| format!("cannot write {}", stamp.display()))
}
