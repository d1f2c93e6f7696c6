//! A disk of a few megabytes that only the processes of one test can see, and that outlives them.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::cli_sandbox::CliSandbox;

/// Mounts a small disk as `kept`, prints a line, and exits when its standard input is closed.
const MOUNT_SCRIPT: &str = "mkdir -p kept && mount -t tmpfs -o size=16m tmpfs kept && echo mounted && read line";
/// Makes `kept` read-only, then runs a program.
const READ_ONLY_SCRIPT: &str = r#"mount --bind kept kept && mount -o remount,bind,ro kept && exec "$@""#;
/// Runs a program in a directory.
const CHANGE_DIR_SCRIPT: &str = r#"cd "$0" && exec "$@""#;

/// Checks that processes of a test can create mounts, which a small disk needs.
///
/// # Panics
/// Panics if this machine does not allow mounts.
pub fn require_mounts() {
    let mut mount = Command::new("unshare");
    mount.args(["-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]);
    let output = mount.output();
    let output = output.expect("`unshare` is missing: install util-linux");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "tests of a full disk need a tmpfs in a mount namespace, which this machine does not allow: {text}"
    );
}

/// A command of the sandbox that can read `kept`, but not write to it.
pub fn read_only_command(sandbox: &CliSandbox, args: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", READ_ONLY_SCRIPT, "sh"]);
    append_program(command, sandbox, args)
}

/// The sandbox's program with these arguments, as arguments of another program.
fn append_program(mut command: Command, sandbox: &CliSandbox, args: &[&str]) -> Command {
    let program = sandbox.command(args);
    command.arg(program.get_program()).args(program.get_args());
    command.current_dir(sandbox.path(""));
    command.env_clear();
    let env = program.get_envs();
    command.envs(env.filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::null());
    command
}

/// A small disk, mounted as `kept` for the commands that are started on it.
pub struct SmallDisk {
    /// The process whose namespace has the mount.
    mount_process: Child,
    folder: PathBuf,
}

impl SmallDisk {
    /// Creates an empty disk.
    ///
    /// # Panics
    /// Panics if this machine does not allow mounts.
    pub fn mount(folder: &Path) -> Self {
        require_mounts();
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", MOUNT_SCRIPT]);
        command.current_dir(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut mount_process = command.spawn().expect("`unshare` starts");
        let stdout = mount_process.stdout.take().expect("its output is piped");
        let mut line = String::new();
        let result = BufReader::new(stdout).read_line(&mut line);
        result.expect("its output can be read");
        assert_eq!(line, "mounted\n", "cannot mount the disk");
        let folder = folder.to_owned();
        Self { mount_process, folder }
    }

    /// A command of the sandbox whose `kept` is this disk.
    pub fn command(&self, sandbox: &CliSandbox, args: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        let process_id = self.mount_process.id().to_string();
        command.args(["-t", &process_id, "-U", "-m", "--preserve-credentials"]);
        command.args(["sh", "-c", CHANGE_DIR_SCRIPT]).arg(&self.folder);
        append_program(command, sandbox, args)
    }

    /// Path of a file of the disk for the test process.
    pub fn path(&self, name: &str) -> PathBuf {
        let mount_point = self.folder.join("kept");
        let inside = mount_point.strip_prefix("/").unwrap_or(&mount_point);
        let root = PathBuf::from(format!("/proc/{}/root", self.mount_process.id()));
        root.join(inside).join(name)
    }

    /// Fills the disk until the returned value is dropped.
    pub fn fill(&self) -> DiskFiller {
        self.fill_except(0)
    }

    /// Fills the disk except for this number of bytes.
    pub fn fill_except(&self, bytes: usize) -> DiskFiller {
        let (reserve, file) = (self.path("spare"), self.path("filler"));
        fs::write(&reserve, vec![0; bytes]).expect("the disk has this much space");
        let mut filler = File::create(&file).expect("the disk accepts a file");
        for piece in [64 * 1024, 1024, 1] {
            while filler.write_all(&vec![0; piece]).is_ok() {}
        }
        fs::remove_file(reserve).expect("a file of the disk can be removed");
        DiskFiller(file)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.mount_process.kill();
        let _ = self.mount_process.wait();
    }
}

/// A file that fills a small disk, until it is dropped.
pub struct DiskFiller(PathBuf);

impl Drop for DiskFiller {
    fn drop(&mut self) {
        // The disk may be unmounted already, and the file with it.
        let _ = fs::remove_file(&self.0);
    }
}
