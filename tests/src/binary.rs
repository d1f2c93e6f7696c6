//! The real binary in a folder of its own: commands that end, processes that go on, and what they print.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A folder with its own store, and the binary to use it with.
pub struct Desk {
    dir: TempDir,
}

/// What a command came to.
#[derive(Debug, Clone)]
pub struct Said {
    /// The exit code; none if it was killed.
    pub code: Option<i32>,
    /// What it printed as data.
    pub out: String,
    /// What it printed for people.
    pub err: String,
}

/// A process that goes on, in a group of its own; its output is read line by line.
pub struct Going {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

/// The binary under test, beside the running program, or beside the folder of a test.
pub fn noetl() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own executable");
    let beside = test.ancestors().skip(1).take(2);
    let binary = beside
        .map(|folder| folder.join("noetl"))
        .find(|file| file.is_file());
    binary.unwrap_or_else(|| {
        panic!(
            "`noetl` is not beside `{}`: build it with `cargo build -p noetl`",
            test.display()
        )
    })
}

/// The folder of the playbooks that the guides show.
pub fn examples() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests
        .parent()
        .expect("tests lie in the house")
        .join("examples")
}

impl Default for Desk {
    fn default() -> Self {
        Self::new()
    }
}

impl Desk {
    /// An empty folder.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("there is room for a folder");
        Self { dir }
    }

    /// A place in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file into the folder.
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("the folder is writable");
    }

    /// What a file of the folder says.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// A command, ready to be changed or run; nothing of the tester's own settings reaches it.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(noetl());
        command
            .args(args)
            .current_dir(self.dir.path())
            .env_clear()
            .env("PATH", path())
            .env("HOME", self.dir.path())
            .env("LANG", "C.UTF-8")
            // The servers that tasks of the tests ask are on this machine.
            .env("NOETL_HTTP_ALLOW", "127.0.0.0/8,::1")
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, args: &[&str]) -> Said {
        said(self.command(args).output().expect("the binary starts"))
    }

    /// Runs a command that must end with 0, and reads the JSON it prints.
    pub fn json(&self, args: &[&str]) -> Value {
        let said = self.run(args);
        assert_eq!(said.code, Some(0), "{args:?}: {said:?}");
        said.json()
    }

    /// The log of a run, as `events` prints it.
    pub fn events(&self, id: &str) -> Vec<Value> {
        let said = self.run(&["events", id, "-o", "ndjson"]);
        assert_eq!(said.code, Some(0), "{said:?}");
        let lines = said.out.lines().map(serde_json::from_str);
        lines.collect::<Result<_, _>>().expect("every line is JSON")
    }

    /// Waits until no process of this folder lives, not even a tool's; false if one lives on. All have it as their home.
    pub fn is_deserted(&self) -> bool {
        let home = format!("HOME={}\0", self.dir.path().display());
        let lives = || {
            let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
            processes
                .filter_map(|entry| fs::read(entry.path().join("environ")).ok())
                .any(|environ| String::from_utf8_lossy(&environ).contains(&home))
        };
        // Each look takes a good part of a millisecond; what lives on after so many lives on for good.
        (0..20_000).any(|_| {
            std::thread::yield_now();
            !lives()
        })
    }

    /// Starts a process that goes on.
    pub fn start(&self, args: &[&str]) -> Going {
        Going::spawn(self.command(args))
    }
}

impl Said {
    /// What was printed, as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Going {
    /// Starts a command that goes on.
    pub fn spawn(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.process_group(0).spawn().expect("the binary starts");
        let stdout = child.stdout.take().expect("its output is piped");
        Self {
            child,
            lines: BufReader::new(stdout).lines(),
        }
    }

    /// The process id, which is its group's too.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Reads lines until one fits; none if the output ends first.
    pub fn line(&mut self, fits: impl Fn(&str) -> bool) -> Option<String> {
        self.lines
            .by_ref()
            .map_while(Result::ok)
            .find(|line| fits(line))
    }

    /// Reads events until one is of this type and has this step.
    pub fn event(&mut self, kind: &str, step: Option<&str>) -> Option<Value> {
        let fits = |event: &Value| {
            event["event_type"] == kind && step.is_none_or(|step| event["step"] == step)
        };
        self.lines.by_ref().map_while(Result::ok).find_map(|line| {
            let event: Value = serde_json::from_str(&line).ok()?;
            fits(&event).then_some(event)
        })
    }

    /// Kills the whole group at once.
    pub fn kill(mut self) {
        let group = format!("-{}", self.child.id());
        let killed = Command::new("kill").args(["-9", "--", &group]).output();
        killed.expect("there is a `kill`");
        self.child.wait().expect("a killed process ends");
    }

    /// Waits for the end; answers the exit code and the rest of the output.
    pub fn finish(mut self) -> (Option<i32>, Vec<String>) {
        let rest = self.lines.by_ref().map_while(Result::ok).collect();
        let status = self.child.wait().expect("the process ends");
        (status.code(), rest)
    }

    /// The exit code, if it has ended.
    pub fn ended(&mut self) -> Option<Option<i32>> {
        let status = self.child.try_wait().expect("the process can be asked");
        status.map(|status| status.code())
    }
}

fn said(output: Output) -> Said {
    Said {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).expect("output is text"),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "programs that playbooks use are found where the tester's are"
)]
pub(crate) fn path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_default()
}
