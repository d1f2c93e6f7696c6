//! A disk of a few megabytes that only the processes of one test can see, and that outlives them.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tests::binary::Desk;

/// Mounts a small disk as `kept`, reports it, and keeps it until its standard input is closed.
const KEEP_SMALL: &str =
    r"mkdir -p kept && mount -t tmpfs -o size=16m tmpfs kept && echo mounted && read line";
/// Makes `kept` read-only, then becomes the program.
const READ_ONLY: &str = r#"mount --bind kept kept && mount -o remount,bind,ro kept && exec "$@""#;
/// Becomes a program that works in a folder.
const THERE: &str = r#"cd "$0" && exec "$@""#;

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

/// A command of the desk that can read `kept` and not write it.
pub(crate) fn on_read_only_disk(desk: &Desk, args: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", READ_ONLY, "sh"]);
    add(command, desk, args)
}

/// The desk's program with these arguments, as what another program starts.
fn add(mut command: Command, desk: &Desk, args: &[&str]) -> Command {
    let plain = desk.command(args);
    command.arg(plain.get_program()).args(plain.get_args());
    command.current_dir(desk.path(""));
    command.env_clear();
    let set = plain.get_envs();
    command.envs(set.filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::null());
    command
}

/// The desk's `kept` as a small disk, for the commands that are started on it.
pub(crate) struct SmallDisk {
    /// Holds the mount.
    keeper: Child,
    folder: PathBuf,
}

impl SmallDisk {
    /// An empty disk.
    pub(crate) fn mount(desk: &Desk) -> Self {
        require_mounts();
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", KEEP_SMALL]);
        command.current_dir(desk.path(""));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut keeper = command.spawn().unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(keeper.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        assert_eq!(line, "mounted\n");
        let folder = desk.path("");
        Self { keeper, folder }
    }

    /// A command of the desk whose `kept` is this disk.
    pub(crate) fn command(&self, desk: &Desk, args: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        let keeper = self.keeper.id().to_string();
        command.args(["-t", &keeper, "-U", "-m", "--preserve-credentials"]);
        command.args(["sh", "-c", THERE]).arg(&self.folder);
        add(command, desk, args)
    }

    /// Where this process sees a file of the disk.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        let kept = self.folder.join("kept");
        let inside = kept.strip_prefix("/").unwrap();
        let root = PathBuf::from(format!("/proc/{}/root", self.keeper.id()));
        root.join(inside).join(name)
    }

    /// Takes up all the space that is left, until the answer is dropped.
    pub(crate) fn fill(&self) -> Filler {
        let file = self.path("filler");
        Filler::grow(&file);
        Filler(file)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

/// What takes up all the space of a small disk, until it is dropped.
pub(crate) struct Filler(PathBuf);

impl Filler {
    fn grow(file: &Path) {
        let opened = File::options().append(true).create(true).open(file);
        let mut filler = opened.unwrap();
        for piece in [64 * 1024, 1024, 1] {
            while filler.write_all(&vec![0; piece]).is_ok() {}
        }
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        // With its disk it is gone.
        let _ = fs::remove_file(&self.0);
    }
}
