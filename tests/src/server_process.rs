//! Runs the real binary as a server, in the directory of a sandbox.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStderr, Stdio};

use crate::cli_sandbox::CliSandbox;

/// A running server; it stops with this value.
pub struct ServerProcess {
    child: Child,
    /// URL of the server.
    pub url: String,
    // Keeps the pipe of its output open; the server would fail to write to a closed one.
    _stderr: BufReader<ChildStderr>,
}

impl ServerProcess {
    /// Starts a server with its store in the directory, on a free port.
    pub fn start(sandbox: &CliSandbox, args: &[&str]) -> Self {
        Self::start_on_address(sandbox, "127.0.0.1:0", args)
    }

    /// Starts a server on this address.
    pub fn start_on_address(sandbox: &CliSandbox, address: &str, args: &[&str]) -> Self {
        Self::start_on_store(sandbox, "kept", &[&["--listen", address], args].concat())
    }

    /// Starts a server on this store.
    pub fn start_on_store(sandbox: &CliSandbox, store: &str, args: &[&str]) -> Self {
        let serve = ["serve", "--store", store];
        let (child, mut stderr) = spawn_process(sandbox, &[&serve[..], args].concat());
        let ready = wait_for_line(&mut stderr, "listening on");
        let url = ready.split_whitespace().nth(2).expect("the line contains a URL");
        Self {
            url: url.to_owned(),
            child,
            _stderr: stderr,
        }
    }

    /// Starts a server and makes it the context of the sandbox.
    pub fn start_as_context(sandbox: &CliSandbox, args: &[&str]) -> Self {
        let server = Self::start(sandbox, args);
        let context_added = sandbox.run(&["context", "add", "here", "--server", &server.url]);
        assert_eq!(context_added.code, Some(0), "{context_added:?}");
        server
    }

    /// Kills the server and restarts it on the same port and store.
    #[must_use]
    pub fn restart(mut self, sandbox: &CliSandbox) -> Self {
        self.kill();
        let address = self.url.trim_start_matches("http://").to_owned();
        Self::start_on_address(sandbox, &address, &[])
    }

    /// Process ID of the server.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts a process and reads its standard error.
pub fn spawn_process(sandbox: &CliSandbox, args: &[&str]) -> (Child, BufReader<ChildStderr>) {
    let mut command = sandbox.command(args);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let stderr = child.stderr.take().expect("its output is piped");
    (child, BufReader::new(stderr))
}

/// Reads until a line has this prefix.
pub fn wait_for_line(stderr: &mut BufReader<ChildStderr>, prefix: &str) -> String {
    let mut output = String::new();
    for line in stderr.lines().map_while(Result::ok) {
        if line.starts_with(prefix) {
            return line;
        }
        output.push_str(&line);
    }
    panic!("the process exited without printing `{prefix}`: {output}");
}
