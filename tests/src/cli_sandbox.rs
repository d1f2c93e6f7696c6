//! Runs the real `noetl` binary in a directory of its own: commands, long-running processes, and their output.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A directory with its own store, and the binary.
pub struct CliSandbox {
    dir: TempDir,
}

/// Exit code and output of a command.
#[derive(Debug, Clone)]
pub struct CommandOutput {
    /// Exit code; `None` if the process was killed.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// A running process in its own process group; its output is read line by line.
pub struct RunningCommand {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

/// Path of the binary under test: in the directory of the running program, or its parent for a test.
pub fn noetl_path() -> PathBuf {
    let test = std::env::current_exe().expect("the path of the test executable is known");
    let folders = test.ancestors().skip(1).take(2);
    let binary = folders.map(|folder| folder.join("noetl")).find(|file| file.is_file());
    binary.unwrap_or_else(|| {
        panic!(
            "`noetl` not found in the directory of `{}`: build it with `cargo build -p noetl`",
            test.display()
        )
    })
}

/// Directory of the example playbooks.
pub fn examples_dir() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests
        .parent()
        .expect("the tests package is in the root directory")
        .join("examples")
}

impl Default for CliSandbox {
    fn default() -> Self {
        Self::new()
    }
}

impl CliSandbox {
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
        let mut command = Command::new(noetl_path());
        command
            .args(args)
            .current_dir(self.dir.path())
            .env_clear()
            .env("PATH", path_variable())
            .env("HOME", self.dir.path())
            .env("LANG", "C.UTF-8")
            // The HTTP servers of the tests are on this machine.
            .env("NOETL_HTTP_ALLOW", "127.0.0.0/8,::1")
            .stdin(Stdio::null());
        command
    }

    /// Runs a command and waits until it exits.
    pub fn run(&self, args: &[&str]) -> CommandOutput {
        to_command_output(self.command(args).output().expect("the binary starts"))
    }

    /// Runs a command that must exit with 0, and parses the JSON it prints.
    pub fn run_json(&self, args: &[&str]) -> Value {
        let output = self.run(args);
        assert_eq!(output.code, Some(0), "{args:?}: {output:?}");
        output.json()
    }

    /// The event log of a run, as `noetl events` prints it.
    pub fn events(&self, id: &str) -> Vec<Value> {
        let output = self.run(&["events", id, "-o", "ndjson"]);
        assert_eq!(output.code, Some(0), "{output:?}");
        let lines = output.stdout.lines().map(serde_json::from_str);
        lines.collect::<Result<_, _>>().expect("every line is JSON")
    }

    /// Waits until all processes of this directory, tools included, have ended; `false` if one remains. `HOME`
    /// identifies them.
    pub fn wait_for_no_processes(&self) -> bool {
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
    pub fn start(&self, args: &[&str]) -> RunningCommand {
        RunningCommand::spawn(self.command(args))
    }
}

impl CommandOutput {
    /// Parses standard output as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl RunningCommand {
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
    pub fn wait_for_line(&mut self, matches: impl Fn(&str) -> bool) -> Option<String> {
        self.lines.by_ref().map_while(Result::ok).find(|line| matches(line))
    }

    /// Reads events until one has this type and step.
    pub fn wait_for_event(&mut self, kind: &str, step: Option<&str>) -> Option<Value> {
        let fits = |event: &Value| event["event_type"] == kind && step.is_none_or(|step| event["step"] == step);
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
        let remaining_lines = self.lines.by_ref().map_while(Result::ok).collect();
        let status = self.child.wait().expect("the process exits");
        (status.code(), remaining_lines)
    }

    /// The exit code, if the process has exited.
    pub fn exit_code(&mut self) -> Option<Option<i32>> {
        let status = self
            .child
            .try_wait()
            .expect("the status of a child process can be read");
        status.map(|status| status.code())
    }
}

fn to_command_output(output: Output) -> CommandOutput {
    CommandOutput {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("output is UTF-8"),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "`PATH` is set, so that playbooks find the programs they use"
)]
pub(crate) fn path_variable() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_default()
}
