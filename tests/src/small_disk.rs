//! A disk of a few megabytes that only the processes of one test can see, and that outlives them.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::binary::Desk;

/// Mounts a small disk as `kept`, reports it, and keeps it until its standard input is closed.
const KEEP_SMALL: &str =
    "mkdir -p kept && mount -t tmpfs -o size=16m tmpfs kept && echo mounted && read line";
/// Makes `kept` read-only, then becomes the program.
const READ_ONLY: &str = r#"mount --bind kept kept && mount -o remount,bind,ro kept && exec "$@""#;
/// Becomes a program that works in a folder.
const THERE: &str = r#"cd "$0" && exec "$@""#;

/// Fails where the processes of a test may not have mounts of their own: there is no small disk without them.
///
/// # Panics
/// Where this machine refuses them.
pub fn require_mounts() {
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
pub fn on_read_only_disk(desk: &Desk, args: &[&str]) -> Command {
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

/// A folder's `kept` as a small disk, for the commands that are started on it.
pub struct SmallDisk {
    /// Holds the mount.
    keeper: Child,
    folder: PathBuf,
}

impl SmallDisk {
    /// An empty disk.
    ///
    /// # Panics
    /// Where this machine refuses mounts.
    pub fn mount(folder: &Path) -> Self {
        require_mounts();
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", KEEP_SMALL]);
        command.current_dir(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut keeper = command.spawn().expect("`unshare` starts");
        let said = keeper.stdout.take().expect("what it says is piped");
        let mut line = String::new();
        let read = BufReader::new(said).read_line(&mut line);
        read.expect("what it says can be read");
        assert_eq!(line, "mounted\n", "the disk cannot be mounted");
        let folder = folder.to_owned();
        Self { keeper, folder }
    }

    /// A command of the desk whose `kept` is this disk.
    pub fn command(&self, desk: &Desk, args: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        let keeper = self.keeper.id().to_string();
        command.args(["-t", &keeper, "-U", "-m", "--preserve-credentials"]);
        command.args(["sh", "-c", THERE]).arg(&self.folder);
        add(command, desk, args)
    }

    /// Where the process of the test sees a file of the disk.
    pub fn path(&self, name: &str) -> PathBuf {
        let kept = self.folder.join("kept");
        let inside = kept.strip_prefix("/").unwrap_or(&kept);
        let root = PathBuf::from(format!("/proc/{}/root", self.keeper.id()));
        root.join(inside).join(name)
    }

    /// Takes up all the space that is left, until the answer is dropped.
    pub fn fill(&self) -> Filler {
        self.fill_but(0)
    }

    /// The same, but for so many bytes.
    pub fn fill_but(&self, bytes: usize) -> Filler {
        let (spare, file) = (self.path("spare"), self.path("filler"));
        fs::write(&spare, vec![0; bytes]).expect("there is so much space");
        let mut filler = File::create(&file).expect("the disk takes a file");
        for piece in [64 * 1024, 1024, 1] {
            while filler.write_all(&vec![0; piece]).is_ok() {}
        }
        fs::remove_file(spare).expect("the disk lets go of a file");
        Filler(file)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

/// What takes up the space of a small disk, until it is dropped.
pub struct Filler(PathBuf);

impl Drop for Filler {
    fn drop(&mut self) {
        // With its disk it is gone.
        let _ = fs::remove_file(&self.0);
    }
}
