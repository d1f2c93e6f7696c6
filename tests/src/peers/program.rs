//! Finds the programs of external services, chooses their user, and stops them.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// Finds a program on the `PATH`, in one of the given directories, or in the environment of the tests.
pub(super) fn find_program(name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    find_programs(name, folders).next()
}

/// All paths of programs with this name, in search order.
#[expect(clippy::disallowed_methods, reason = "`PATH` names the directories of programs")]
pub(super) fn find_programs(name: &str, folders: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(name));
    let on_path: Vec<PathBuf> = on_path.collect();
    let in_folders: Vec<PathBuf> = folders.iter().map(|folder| folder.join(name)).collect();
    let all = on_path.into_iter().chain(in_folders);
    all.filter(|file| file.is_file())
}

/// The environment that `cargo xtask test` creates, in the directory of the test executable.
pub(super) fn environment_dir() -> PathBuf {
    let test = std::env::current_exe().expect("the path of the test executable is known");
    let target = test.ancestors().find(|folder| folder.join("test-env").is_dir());
    target.map(|target| target.join("test-env")).unwrap_or_default()
}

/// Directories of an environment's installed packages.
pub(super) fn package_dirs() -> Vec<PathBuf> {
    let lib = environment_dir().join("lib");
    let versions = std::fs::read_dir(lib).into_iter().flatten().flatten();
    versions.map(|version| version.path().join("site-packages")).collect()
}

/// A port that is currently free.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("a bound socket has an address").port()
}

/// User of a program: Postgres refuses to run as root.
#[derive(Clone, Copy)]
pub(crate) struct ProgramUser {
    ids: Option<(u32, u32)>,
}

impl ProgramUser {
    /// The user of this process.
    pub(crate) fn current() -> Self {
        Self { ids: None }
    }

    /// The user of this process, or an unprivileged one if that is root.
    pub(super) fn unprivileged() -> Self {
        if !rustix::process::geteuid().is_root() {
            return Self { ids: None };
        }
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let entry = |name: &str| {
            let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
            let mut fields = line.split(':').skip(2);
            let ids = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
            Some(ids)
        };
        let ids = entry("postgres").or_else(|| entry("nobody"));
        Self {
            ids: Some(ids.expect("a user other than root exists: `postgres` or `nobody`")),
        }
    }

    /// Whether this user can access a directory: a user other than this process's needs permissions for all users.
    pub(super) fn may_enter(self, folder: &Path) -> bool {
        let is_open =
            |folder: &Path| std::fs::metadata(folder).is_ok_and(|metadata| metadata.permissions().mode() & 0o001 != 0);
        self.ids.is_none() || folder.ancestors().all(is_open)
    }

    /// Creates a directory that this user owns.
    pub(super) fn directory(self) -> TempDir {
        let dir = TempDir::new().expect("a temporary directory");
        if let Some((user, group)) = self.ids {
            chown(dir.path(), Some(user), Some(group)).expect("root may change the owner of a directory");
        }
        dir
    }

    /// Creates a file that only this user may read.
    pub(super) fn write_private(self, file: &Path, text: &str) {
        std::fs::write(file, text).expect("a temporary directory can be written");
        let mode = Permissions::from_mode(0o600);
        std::fs::set_permissions(file, mode).expect("the mode of an own file can be changed");
        if let Some((user, group)) = self.ids {
            chown(file, Some(user), Some(group)).expect("root may change the owner of a file");
        }
    }

    pub(super) fn command(self, program: &Path, dir: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(dir).stdin(Stdio::null());
        if let Some((user, group)) = self.ids {
            command.uid(user).gid(group);
        }
        command
    }
}

/// A shell that stops a service when this value is dropped or this process exits.
pub(crate) struct Watchdog {
    shell: Child,
}

impl Watchdog {
    /// Runs `start`, waits until it has printed a line, and runs `stop` at the end. `$1` is the directory.
    pub(crate) fn start(user: ProgramUser, dir: &Path, start: &str, stop: &str) -> Self {
        let script = format!("trap '' INT TERM HUP; {start}\necho ready\ncat >/dev/null\n{stop}");
        let mut shell = user
            .command(Path::new("/bin/sh"), dir)
            .args(["-c", &script, "sh"])
            .arg(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("a shell can be started");
        let output = shell.stdout.take().expect("its output is piped");
        let mut line = String::new();
        BufReader::new(output)
            .read_line(&mut line)
            .expect("its output can be read");
        assert_eq!(line.trim(), "ready", "a service did not start");
        Self { shell }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // If the shell has exited, it has already stopped the service.
        let _ = self.shell.wait();
    }
}
