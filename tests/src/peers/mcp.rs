//! A real server of the Model Context Protocol, based on its official Python package.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::program::{ProgramUser, Watchdog, environment_dir, free_port};

/// A running server. The watch ends before the directory is removed.
pub struct McpServer {
    port: u16,
    _watchdog: Watchdog,
    _dir: TempDir,
}

/// Format of HTTP responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum McpResponseMode {
    /// A stream of events.
    Events,
    /// One document.
    Json,
}

impl McpServer {
    /// Starts a server over HTTP.
    pub fn private(mode: McpResponseMode) -> Self {
        let user = ProgramUser::current();
        let dir = user.directory();
        let port = free_port();
        let [python, script, _] = Self::command().map(PathBuf::from);
        let json = if mode == McpResponseMode::Json { "json" } else { "" };
        let start = format!(
            "'{}' '{}' http {port} \"$1/ready\" {json} </dev/null >\"$1/log\" 2>&1 & pid=$!\n\
             while ! [ -s \"$1/ready\" ]; do kill -0 $pid || exit 1; sleep 0.02; done",
            python.display(),
            script.display()
        );
        let stop = "kill -KILL $pid; wait $pid 2>/dev/null";
        Self {
            port,
            _watchdog: Watchdog::start(user, dir.path(), &start, stop),
            _dir: dir,
        }
    }

    /// URL for clients.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// Command line of a server over pipes.
    pub fn command() -> [String; 3] {
        let python = environment_dir().join("bin/python");
        assert!(
            python.is_file(),
            "the Python environment of the tests does not exist: run `cargo xtask test`, which creates it"
        );
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/peers/mcp_server.py");
        [python, script, "stdio".into()].map(|argument| argument.display().to_string())
    }
}
