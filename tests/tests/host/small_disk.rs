//! A disk of a few megabytes that only one process and what it starts can see.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tests::binary::Desk;

/// Mounts a small disk as `kept`, then becomes the program.
const SMALL: &str = r#"mkdir -p kept && mount -t tmpfs -o size=4m tmpfs kept && exec "$@""#;
/// Makes `kept` read-only, then becomes the program.
const READ_ONLY: &str = r#"mount --bind kept kept && mount -o remount,bind,ro kept && exec "$@""#;

/// Fails where the processes of these tests may not have mounts of their own: there is no small disk without them.
pub(crate) fn require_mounts() {
    let mut try_it = Command::new("unshare");
    try_it.args(["-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]);
    let tried = try_it.output();
    let tried = tried.expect("`unshare` is missing: install util-linux");
    let said = String::from_utf8_lossy(&tried.stderr);
    assert!(
        tried.status.success(),
        "a full disk is tested on a tmpfs in a namespace of its own, and this machine refuses it: {said}"
    );
}

/// A command of the desk whose `kept` is a small disk.
pub(crate) fn on_small_disk(desk: &Desk, args: &[&str]) -> Command {
    after(desk, SMALL, args)
}

/// A command of the desk that can read `kept` and not write it.
pub(crate) fn on_read_only_disk(desk: &Desk, args: &[&str]) -> Command {
    after(desk, READ_ONLY, args)
}

fn after(desk: &Desk, prepare: &str, args: &[&str]) -> Command {
    let plain = desk.command(args);
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", prepare, "sh"]);
    command.arg(plain.get_program()).args(plain.get_args());
    command.current_dir(desk.path(""));
    command.env_clear();
    let set = plain.get_envs();
    command.envs(set.filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::null());
    command
}

/// What takes up all the room of a process's small disk, until it is dropped.
pub(crate) struct Filler(PathBuf);

impl Filler {
    /// Fills the disk of a process.
    pub(crate) fn new(desk: &Desk, process: u32) -> Self {
        let kept = desk.path("kept");
        let inside = kept.strip_prefix("/").unwrap();
        let file = PathBuf::from(format!("/proc/{process}/root"))
            .join(inside)
            .join("filler");
        let mut filler = File::create(&file).unwrap();
        for piece in [64 * 1024, 1024, 1] {
            while filler.write_all(&vec![0; piece]).is_ok() {}
        }
        Self(file)
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        // With the process the whole disk is gone.
        let _ = fs::remove_file(&self.0);
    }
}
