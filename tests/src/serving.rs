//! The real binary as a server, in a desk's folder.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStderr, Stdio};

use crate::binary::Desk;

/// A server that lives as long as the test needs it.
pub struct Served {
    child: Child,
    /// Its address.
    pub url: String,
    // What it says is read no further; a pipe that nobody holds would break.
    _said: BufReader<ChildStderr>,
}

impl Served {
    /// A server with its store in the folder, on a free port.
    pub fn start(desk: &Desk, args: &[&str]) -> Self {
        Self::listen(desk, "127.0.0.1:0", args)
    }

    /// The same on this address.
    pub fn listen(desk: &Desk, address: &str, args: &[&str]) -> Self {
        Self::on_store(desk, "kept", &[&["--listen", address], args].concat())
    }

    /// A server on this store.
    pub fn on_store(desk: &Desk, store: &str, args: &[&str]) -> Self {
        let serve = ["serve", "--store", store];
        let (child, mut said) = begin(desk, &[&serve[..], args].concat());
        let ready = line(&mut said, "listening on");
        let url = ready.split_whitespace().nth(2).expect("the line has a URL");
        Self {
            url: url.to_owned(),
            child,
            _said: said,
        }
    }

    /// A desk whose context is this server.
    pub fn with_context(desk: &Desk, args: &[&str]) -> Self {
        let served = Self::start(desk, args);
        let added = desk.run(&["context", "add", "here", "--server", &served.url]);
        assert_eq!(added.code, Some(0), "{added:?}");
        served
    }

    /// Dies at once, and comes back on the same port and store.
    #[must_use]
    pub fn reborn(mut self, desk: &Desk) -> Self {
        self.die();
        let address = self.url.trim_start_matches("http://").to_owned();
        Self::listen(desk, &address, &[])
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn die(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.die();
    }
}

/// Starts a process of which only what it says to people is read.
pub fn begin(desk: &Desk, args: &[&str]) -> (Child, BufReader<ChildStderr>) {
    let mut command = desk.command(args);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let said = child.stderr.take().expect("what it says is piped");
    (child, BufReader::new(said))
}

/// Reads until a line begins so.
pub fn line(said: &mut BufReader<ChildStderr>, begins: &str) -> String {
    let mut before = String::new();
    for line in said.lines().map_while(Result::ok) {
        if line.starts_with(begins) {
            return line;
        }
        before.push_str(&line);
    }
    panic!("it ended without `{begins}`: {before}");
}
