//! Child processes: how a verb starts cargo and other programs, and where things lie.
//!
//! A child inherits the terminal, so what it prints is what the person sees.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, bail};

/// The workspace's root, as cargo says it: another clone with the same target directory may have built this program.
#[expect(
    clippy::disallowed_methods,
    reason = "cargo tells a program that it runs where its package lies in no other way"
)]
pub(crate) fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let built = || PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let package = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(built, PathBuf::from);
        let root = package.parent();
        root.expect("xtask lies directly under the workspace's root")
            .to_owned()
    })
}

/// Cargo, started at the workspace's root.
pub(crate) fn cargo<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new("cargo");
    command.args(args).current_dir(root());
    command
}

/// Says what is started, runs it to its end, and fails if it fails.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let shown = describe(command);
    eprintln!("$ {shown}");
    let status = command
        .status()
        .with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed: {status}");
    }
    Ok(())
}

/// Whether a command can be started and succeeds; what it prints is dropped.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Where cargo builds: inside the tree, or wherever the caller's configuration says.
pub(crate) fn target_directory() -> anyhow::Result<PathBuf> {
    let output = cargo(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .context("cannot start `cargo metadata`")?;
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("`cargo metadata` gave no JSON")?;
    let directory = metadata["target_directory"]
        .as_str()
        .context("`cargo metadata` names no target directory")?;
    Ok(PathBuf::from(directory))
}

fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}
