//! One process of a cluster: the real binary, started, killed, stopped for a while, and started again.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::binary::{noetl, path};

/// A process with a directory of its own; what it prints is kept there.
pub struct Process {
    name: String,
    args: Vec<String>,
    dir: PathBuf,
    child: Option<Child>,
    is_stopped: bool,
}

impl Process {
    /// Starts it, in a fresh directory under `root`.
    pub(crate) fn start(root: &Path, name: &str, args: Vec<String>) -> Self {
        let dir = root.join(name);
        fs::create_dir_all(&dir).expect("there is room for a folder");
        let mut process = Self {
            name: name.to_owned(),
            args,
            dir,
            child: None,
            is_stopped: false,
        };
        process.restart();
        process
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The processes's id, while it lives.
    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Starts it unless it lives.
    pub fn restart(&mut self) {
        if self.child.is_some() {
            return;
        }
        let said = File::options()
            .create(true)
            .append(true)
            .open(self.dir.join("said"))
            .expect("its directory can be written");
        let also = said.try_clone().expect("a file can be opened twice");
        let child = Command::new(noetl())
            .args(&self.args)
            .current_dir(&self.dir)
            .env_clear()
            .env("PATH", path())
            .env("HOME", &self.dir)
            .env("LANG", "C.UTF-8")
            .env("NO_COLOR", "1")
            // The witness that tasks report to is on this machine.
            .env("NOETL_HTTP_ALLOW", "127.0.0.0/8,::1")
            .env("NOETL_LOG", "info")
            .stdin(Stdio::null())
            .stdout(said)
            .stderr(also)
            .spawn()
            .expect("the binary starts");
        // Whoever cleans up after a dead test finds the process by this file.
        let id = child.id().to_string();
        fs::write(self.dir.join("pid"), id).expect("its directory can be written");
        self.child = Some(child);
        self.is_stopped = false;
    }

    /// Kills it at once, as a crash of its machine would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // One that has ended by itself is dead as well.
            let _ = child.kill();
            child.wait().expect("a killed process ends");
        }
    }

    /// Asks it to end, and waits until it has.
    pub fn end(&mut self) -> Option<ExitStatus> {
        self.go_on();
        self.signal(Signal::TERM);
        let mut child = self.child.take()?;
        Some(child.wait().expect("a process that is asked to end does"))
    }

    /// Stops it without its knowing.
    pub fn stop(&mut self) {
        self.is_stopped = true;
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn go_on(&mut self) {
        if std::mem::take(&mut self.is_stopped) {
            self.signal(Signal::CONT);
        }
    }

    /// How it ended, if nobody here ended it; it may be started again then.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        let child = self.child.as_mut()?;
        let status = child.try_wait().expect("a child can be asked")?;
        self.child = None;
        Some(status)
    }

    /// What it has printed.
    pub fn said(&self) -> String {
        fs::read_to_string(self.dir.join("said")).unwrap_or_default()
    }

    fn signal(&self, signal: Signal) {
        let id = self.id().and_then(|id| i32::try_from(id).ok());
        if let Some(pid) = id.and_then(Pid::from_raw) {
            // A process that has just ended needs no signal.
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
