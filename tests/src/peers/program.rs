//! Where peers' programs lie, as whom they run, and who stops them.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// Where a program lies that is on the path, in one of the given folders, or in the tests' own environment.
pub(super) fn find(name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    find_all(name, folders).next()
}

/// Every place where a program of that name lies, in the order in which they are looked at.
#[expect(
    clippy::disallowed_methods,
    reason = "where programs lie is the environment's to say"
)]
pub(super) fn find_all(name: &str, folders: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(name));
    let on_path: Vec<PathBuf> = on_path.collect();
    let elsewhere: Vec<PathBuf> = folders.iter().map(|folder| folder.join(name)).collect();
    let all = on_path.into_iter().chain(elsewhere);
    all.filter(|file| file.is_file())
}

/// The environment that `cargo xtask test` makes, beside the running test's own executable.
pub(super) fn environment() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own executable");
    let target = test
        .ancestors()
        .find(|folder| folder.join("test-env").is_dir());
    target
        .map(|target| target.join("test-env"))
        .unwrap_or_default()
}

/// The folders of an environment's installed packages.
pub(super) fn packages() -> Vec<PathBuf> {
    let lib = environment().join("lib");
    let versions = std::fs::read_dir(lib).into_iter().flatten().flatten();
    versions
        .map(|version| version.path().join("site-packages"))
        .collect()
}

/// A port that nobody uses at this moment.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener
        .local_addr()
        .expect("a bound socket has an address")
        .port()
}

/// Whom a program runs as: Postgres refuses root.
#[derive(Clone, Copy)]
pub(crate) struct User {
    ids: Option<(u32, u32)>,
}

impl User {
    /// The user of this process, whoever that is.
    pub(crate) fn own() -> Self {
        Self { ids: None }
    }

    /// The user of this process, or one without rights if that is root.
    pub(super) fn unprivileged() -> Self {
        if !rustix::process::geteuid().is_root() {
            return Self { ids: None };
        }
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let entry = |name: &str| {
            let line = users
                .lines()
                .find(|line| line.split(':').next() == Some(name))?;
            let mut fields = line.split(':').skip(2);
            let ids = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
            Some(ids)
        };
        let ids = entry("postgres").or_else(|| entry("nobody"));
        Self {
            ids: Some(ids.expect("a user besides root: `postgres` or `nobody`")),
        }
    }

    /// Whether this user reaches a folder: a user who is not this process's needs rights that everybody has.
    pub(super) fn may_enter(self, folder: &Path) -> bool {
        let is_open = |folder: &Path| {
            std::fs::metadata(folder).is_ok_and(|found| found.permissions().mode() & 0o001 != 0)
        };
        self.ids.is_none() || folder.ancestors().all(is_open)
    }

    /// A fresh directory of this user's.
    pub(super) fn directory(self) -> TempDir {
        let dir = TempDir::new().expect("a temporary directory");
        if let Some((user, group)) = self.ids {
            chown(dir.path(), Some(user), Some(group)).expect("root may give a directory away");
        }
        dir
    }

    /// A file that only this user may read.
    pub(super) fn write_private(self, file: &Path, text: &str) {
        std::fs::write(file, text).expect("a temporary directory can be written");
        let mode = Permissions::from_mode(0o600);
        std::fs::set_permissions(file, mode).expect("one's own file can be closed");
        if let Some((user, group)) = self.ids {
            chown(file, Some(user), Some(group)).expect("root may give a file away");
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

/// A shell that stops a peer once this is dropped, or this process is gone.
pub(crate) struct Watch {
    shell: Child,
}

impl Watch {
    /// Runs `start`, waits until it has printed a line, and runs `stop` at the end. `$1` is the directory.
    pub(crate) fn begin(user: User, dir: &Path, start: &str, stop: &str) -> Self {
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
        assert_eq!(line.trim(), "ready", "a peer did not start");
        Self { shell }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // A shell that is gone already has done its work.
        let _ = self.shell.wait();
    }
}
