//! The web client in `ui`: its checks, the browser of its tests, and the development server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::accept::ACCEPT;
use crate::prerequisite::NEXTEST;
use crate::shell::{cargo_command, command_succeeds, run_command, target_directory, workspace_root};

/// Names under which Chromium is installed.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// `ui`: starts the development server, which reloads the page when a source changes.
pub(crate) fn run_development_server() -> anyhow::Result<()> {
    let sources = workspace_root().join("ui");
    install_packages(&sources)?;
    run_command(Command::new("npm").args(["run", "dev"]).current_dir(&sources))
}

/// `pictures`: takes the pictures of the documentation again, in a browser.
pub(crate) fn take_pictures() -> anyhow::Result<()> {
    NEXTEST.ensure()?;
    let (name, value) = ACCEPT;
    run_command(
        cargo_command(["nextest", "run", "--workspace", "--bin", "noetl", "--test", "browser"])
            .arg("each_picture_of_the_documentation")
            .env(name, value)
            .env("NOETL_TEST_BROWSER", ensure_browser()?)
            .env("NOETL_TEST_CLIENT", check_client()?),
    )
}

/// Checks types, format, unit tests and size of the client in a copy of its sources. Returns the copy, whose packages the
/// browser tests use.
pub(crate) fn check_client() -> anyhow::Result<PathBuf> {
    if !command_succeeds(Command::new("npm").arg("--version")) {
        bail!(
            "npm not found; the tests build the web client with Node.js 20 or newer, so install it (Debian: nodejs, npm)"
        );
    }
    let copy = target_directory()?.join("test-env/ui");
    copy_sources(&workspace_root().join("ui"), &copy)?;
    install_packages(&copy)?;
    for script in ["build", "check"] {
        run_command(Command::new("npm").args(["run", "--silent", script]).current_dir(&copy))?;
    }
    Ok(copy)
}

/// Measures the web client of a binary in a browser, and prints each figure with its limit.
pub(crate) fn measure_client(noetl: &Path) -> anyhow::Result<()> {
    let sources = workspace_root().join("ui");
    install_packages(&sources)?;
    let browser = ensure_browser()?;
    let listing = Command::new("which")
        .arg(browser)
        .output()
        .context("cannot find the browser")?;
    let mut script = Command::new("node");
    script.arg("dev/performance.mjs").arg(noetl).current_dir(&sources);
    run_command(script.env("CHROMIUM", String::from_utf8_lossy(&listing.stdout).trim()))
}

/// Replaces the sources in the copy; the installed packages stay.
fn copy_sources(sources: &Path, copy: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(copy).with_context(|| format!("cannot create {}", copy.display()))?;
    for entry in fs::read_dir(copy)?.flatten() {
        if entry.file_name() != "node_modules" {
            let path = entry.path();
            let removed = if path.is_dir() {
                fs::remove_dir_all(&path)
            } else {
                fs::remove_file(&path)
            };
            removed.with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    let listing = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(sources)
        .output()
        .context("cannot start git")?;
    for name in String::from_utf8_lossy(&listing.stdout).lines() {
        let target = copy.join(name);
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::copy(sources.join(name), &target).with_context(|| format!("cannot copy ui/{name}"))?;
    }
    Ok(())
}

/// Installs the packages of the lock file, unless they are installed already.
fn install_packages(folder: &Path) -> anyhow::Result<()> {
    let lock = fs::read(folder.join("package-lock.json")).context("cannot read ui/package-lock.json")?;
    // Written last, so that an interrupted installation is repeated.
    let stamp = folder.join("node_modules/.installed-lock.json");
    if fs::read(&stamp).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    run_command(
        Command::new("npm")
            .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
            .current_dir(folder),
    )
    .context("cannot install the packages of the web client from the npm registry")?;
    fs::write(&stamp, lock).with_context(|| format!("cannot write {}", stamp.display()))
}

/// Returns the program of Chromium. Installs it if this is a Debian system and the user may install packages.
pub(crate) fn ensure_browser() -> anyhow::Result<&'static str> {
    if let Some(browser) = find_browser() {
        return Ok(browser);
    }
    let remedy = "Chromium not found; the browser tests need it, so install it (Debian: apt-get install chromium)";
    run_command(Command::new("apt-get").arg("update")).context(remedy)?;
    let install = ["install", "--yes", "--no-install-recommends", "chromium"];
    run_command(
        Command::new("apt-get")
            .args(install)
            .env("DEBIAN_FRONTEND", "noninteractive"),
    )
    .context(remedy)?;
    find_browser().context(remedy)
}

fn find_browser() -> Option<&'static str> {
    let is_installed = |name: &&str| command_succeeds(Command::new(name).arg("--version"));
    BROWSERS.into_iter().find(is_installed)
}
