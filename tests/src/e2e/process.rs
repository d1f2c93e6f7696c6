//! One process of a cluster: the real binary, which tests start, kill, suspend and restart.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::cli_sandbox::{noetl_path, path_variable};

/// A process with a directory of its own, which also contains its output.
pub struct TestProcess {
    name: String,
    args: Vec<String>,
    dir: PathBuf,
    child: Option<Child>,
    is_stopped: bool,
}

impl TestProcess {
    /// Starts the process in a new directory under `root`.
    pub(crate) fn start(root: &Path, name: &str, args: Vec<String>) -> Self {
        let dir = root.join(name);
        fs::create_dir_all(&dir).expect("a directory can be created");
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

    /// Name of the process.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Directory of the process.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Process ID, if the process is running.
    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Starts the process unless it is running.
    pub fn restart(&mut self) {
        if self.child.is_some() {
            return;
        }
        let stdout = File::options()
            .create(true)
            .append(true)
            .open(self.dir.join("said"))
            .expect("the directory is writable");
        let stderr = stdout.try_clone().expect("a file can be opened twice");
        let child = Command::new(noetl_path())
            .args(&self.args)
            .current_dir(&self.dir)
            .env_clear()
            .env("PATH", path_variable())
            .env("HOME", &self.dir)
            .env("LANG", "C.UTF-8")
            .env("NO_COLOR", "1")
            // The effect recorder that tasks call is on this machine.
            .env("NOETL_HTTP_ALLOW", "127.0.0.0/8,::1")
            .env("NOETL_LOG", "info")
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .expect("the binary starts");
        // The cleanup after a crashed test finds the process by this file.
        let id = child.id().to_string();
        fs::write(self.dir.join("pid"), id).expect("the directory is writable");
        self.child = Some(child);
        self.is_stopped = false;
    }

    /// Kills the process, like a crash of its machine.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // The process may have exited by itself.
            let _ = child.kill();
            child.wait().expect("a killed process exits");
        }
    }

    /// Sends SIGTERM and waits until the process exits.
    pub fn terminate(&mut self) -> Option<ExitStatus> {
        self.resume();
        self.send_signal(Signal::TERM);
        let mut child = self.child.take()?;
        Some(child.wait().expect("a process exits after SIGTERM"))
    }

    /// Suspends the process with SIGSTOP.
    pub fn suspend(&mut self) {
        self.is_stopped = true;
        self.send_signal(Signal::STOP);
    }

    /// Continues the process with SIGCONT.
    pub fn resume(&mut self) {
        if std::mem::take(&mut self.is_stopped) {
            self.send_signal(Signal::CONT);
        }
    }

    /// Exit status of a process that exited by itself; it can then be restarted.
    pub(crate) fn try_wait(&mut self) -> Option<ExitStatus> {
        let child = self.child.as_mut()?;
        let status = child.try_wait().expect("the status of a child process can be read")?;
        self.child = None;
        Some(status)
    }

    /// Output of the process so far.
    pub fn output(&self) -> String {
        fs::read_to_string(self.dir.join("said")).unwrap_or_default()
    }

    fn send_signal(&self, signal: Signal) {
        let id = self.id().and_then(|id| i32::try_from(id).ok());
        if let Some(pid) = id.and_then(Pid::from_raw) {
            // A process that has just exited needs no signal.
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        self.kill();
    }
}
