//! Runs the real `noetl` binary in a directory of its own: commands, long-running processes, and their output.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A directory with its own store, and the binary.
pub struct Desk {
    dir: TempDir,
}

/// Exit code and output of a command.
#[derive(Debug, Clone)]
pub struct Said {
    /// Exit code; `None` if the process was killed.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// A running process in its own process group; its output is read line by line.
pub struct Going {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

/// Path of the binary under test: in the directory of the running program, or its parent for a test.
pub fn noetl() -> PathBuf {
    let test = std::env::current_exe().expect("the path of the test executable is known");
    let beside = test.ancestors().skip(1).take(2);
    let binary = beside
        .map(|folder| folder.join("noetl"))
        .find(|file| file.is_file());
    binary.unwrap_or_else(|| {
        panic!(
            "`noetl` not found in the directory of `{}`: build it with `cargo build -p noetl`",
            test.display()
        )
    })
}

/// Directory of the example playbooks.
pub fn examples() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests
        .parent()
        .expect("the tests package is in the root directory")
        .join("examples")
}

impl Default for Desk {
    fn default() -> Self {
        Self::new()
    }
}

impl Desk {
    /// Creates an empty directory.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory can be created");
        Self { dir }
    }

    /// Path of a file in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file into the directory.
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("the directory is writable");
    }

    /// Reads a file of the directory.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Prepares a command; it does not inherit the settings of the user who runs the tests.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(noetl());
        command
            .args(args)
            .current_dir(self.dir.path())
            .env_clear()
            .env("PATH", path())
            .env("HOME", self.dir.path())
            .env("LANG", "C.UTF-8")
            // The HTTP servers of the tests are on this machine.
            .env("NOETL_HTTP_ALLOW", "127.0.0.0/8,::1")
            .stdin(Stdio::null());
        command
    }

    /// Runs a command and waits until it exits.
    pub fn run(&self, args: &[&str]) -> Said {
        said(self.command(args).output().expect("the binary starts"))
    }

    /// Runs a command that must exit with 0, and parses the JSON it prints.
    pub fn json(&self, args: &[&str]) -> Value {
        let said = self.run(args);
        assert_eq!(said.code, Some(0), "{args:?}: {said:?}");
        said.json()
    }

    /// The event log of a run, as `noetl events` prints it.
    pub fn events(&self, id: &str) -> Vec<Value> {
        let said = self.run(&["events", id, "-o", "ndjson"]);
        assert_eq!(said.code, Some(0), "{said:?}");
        let lines = said.out.lines().map(serde_json::from_str);
        lines.collect::<Result<_, _>>().expect("every line is JSON")
    }

    /// Waits until no process of this directory is alive, tools included; false if one stays. `HOME` identifies them.
    pub fn is_deserted(&self) -> bool {
        let home = format!("HOME={}\0", self.dir.path().display());
        let lives = || {
            let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
            processes
                .filter_map(|entry| fs::read(entry.path().join("environ")).ok())
                .any(|environ| String::from_utf8_lossy(&environ).contains(&home))
        };
        // Each scan takes most of a millisecond; a process that is alive after all of them does not exit by itself.
        (0..20_000).any(|_| {
            std::thread::yield_now();
            !lives()
        })
    }

    /// Starts a process and does not wait for it.
    pub fn start(&self, args: &[&str]) -> Going {
        Going::spawn(self.command(args))
    }
}

impl Said {
    /// Parses standard output as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Going {
    /// Starts a command and does not wait for it.
    pub fn spawn(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.process_group(0).spawn().expect("the binary starts");
        let stdout = child.stdout.take().expect("its output is piped");
        Self {
            child,
            lines: BufReader::new(stdout).lines(),
        }
    }

    /// The process ID, which is also the group ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Reads lines until one matches; `None` if the output ends first.
    pub fn line(&mut self, fits: impl Fn(&str) -> bool) -> Option<String> {
        self.lines
            .by_ref()
            .map_while(Result::ok)
            .find(|line| fits(line))
    }

    /// Reads events until one has this type and step.
    pub fn event(&mut self, kind: &str, step: Option<&str>) -> Option<Value> {
        let fits = |event: &Value| {
            event["event_type"] == kind && step.is_none_or(|step| event["step"] == step)
        };
        self.lines.by_ref().map_while(Result::ok).find_map(|line| {
            let event: Value = serde_json::from_str(&line).ok()?;
            fits(&event).then_some(event)
        })
    }

    /// Kills the whole process group.
    pub fn kill(mut self) {
        let group = format!("-{}", self.child.id());
        let killed = Command::new("kill").args(["-9", "--", &group]).output();
        killed.expect("the `kill` command exists");
        self.child.wait().expect("a killed process exits");
    }

    /// Waits until the process exits; returns the exit code and the remaining output.
    pub fn finish(mut self) -> (Option<i32>, Vec<String>) {
        let rest = self.lines.by_ref().map_while(Result::ok).collect();
        let status = self.child.wait().expect("the process exits");
        (status.code(), rest)
    }

    /// The exit code, if the process has exited.
    pub fn ended(&mut self) -> Option<Option<i32>> {
        let status = self
            .child
            .try_wait()
            .expect("the status of a child process can be read");
        status.map(|status| status.code())
    }
}

fn said(output: Output) -> Said {
    Said {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).expect("output is UTF-8"),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "`PATH` is set, so that playbooks find the programs they use"
)]
pub(crate) fn path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_default()
}
