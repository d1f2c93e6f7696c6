//! Starts cargo and other programs, and finds the workspace and target directories.
//!
//! A child process inherits the terminal, so its output is visible.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, bail};

/// Returns the workspace root from cargo's environment, because another clone with the same target directory may have
/// built this program.
#[expect(
    clippy::disallowed_methods,
    reason = "cargo passes the package directory only through the environment"
)]
pub(crate) fn workspace_root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let built = || PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let package = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(built, PathBuf::from);
        let root = package.parent();
        root.expect("xtask is directly below the workspace root").to_owned()
    })
}

/// Returns a cargo command that runs in the workspace root.
pub(crate) fn cargo_command<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new("cargo");
    command.args(args).current_dir(workspace_root());
    command
}

/// Prints a command, runs it, and returns an error if it fails.
pub(crate) fn run_command(command: &mut Command) -> anyhow::Result<()> {
    let display = describe_command(command);
    eprintln!("$ {display}");
    let status = command.status().with_context(|| format!("cannot start `{display}`"))?;
    if !status.success() {
        bail!("`{display}` failed: {status}");
    }
    Ok(())
}

/// Returns whether a command succeeds; discards its output.
pub(crate) fn command_succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Returns cargo's target directory.
pub(crate) fn target_directory() -> anyhow::Result<PathBuf> {
    let output = cargo_command(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .context("cannot start `cargo metadata`")?;
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("`cargo metadata` printed no JSON")?;
    let directory = metadata["target_directory"]
        .as_str()
        .context("`cargo metadata` printed no target directory")?;
    Ok(PathBuf::from(directory))
}

fn describe_command(command: &Command) -> String {
    let arguments = std::iter::once(command.get_program()).chain(command.get_args());
    arguments
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}
