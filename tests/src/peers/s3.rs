//! An S3 server in memory: moto, a mock of AWS that is widely used in tests.

use std::path::PathBuf;

use results::{S3Config, SecretString};
use tempfile::TempDir;

use super::program::{ProgramUser, Watchdog, environment_dir, find_program, free_port};
use super::web::request;

/// A secret that must not appear in any output.
const SECRET: &str = "a-secret-of-the-tests";

/// A running server.
pub struct S3Server {
    port: u16,
    _watchdog: Watchdog,
    _dir: TempDir,
}

impl S3Server {
    /// Starts a server with one bucket.
    pub fn private() -> Self {
        let folders: [PathBuf; 1] = [environment_dir().join("bin")];
        let program = find_program("moto_server", &folders)
            .expect("moto_server not found: run `cargo xtask test`, which downloads it from PyPI");
        let user = ProgramUser::current();
        let dir = user.directory();
        let port = free_port();
        let ready = format!("import socket; socket.create_connection(('127.0.0.1', {port}), 1).close()");
        let python = program.with_file_name("python");
        let start = format!(
            "'{}' -H 127.0.0.1 -p {port} </dev/null >\"$1/log\" 2>&1 & pid=$!\n\
             until '{}' -c \"{ready}\" 2>/dev/null; do kill -0 $pid || exit 1; sleep 0.05; done",
            program.display(),
            python.display(),
        );
        let watch = Watchdog::start(user, dir.path(), &start, "kill -KILL $pid; wait $pid 2>/dev/null");
        let s3 = Self {
            port,
            _watchdog: watch,
            _dir: dir,
        };
        let created = request(port, "PUT", &format!("/{}", Self::BUCKET), &[]);
        assert_eq!(created.status, 200, "the bucket was created");
        s3
    }

    /// Name of its bucket.
    pub const BUCKET: &'static str = "results";

    /// URL of the server.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The secret that clients must not print.
    pub fn secret(&self) -> &'static str {
        SECRET
    }

    /// Client settings for its bucket through this port.
    pub fn config_at(&self, port: u16) -> S3Config {
        let credentials = [("AWS_ACCESS_KEY_ID", "tests"), ("AWS_SECRET_ACCESS_KEY", SECRET)];
        let credentials = credentials.map(|(name, value)| (name.to_owned(), SecretString::new(value)));
        S3Config {
            bucket: Self::BUCKET.to_owned(),
            endpoint: Some(format!("http://127.0.0.1:{port}")),
            region: Some("us-east-1".to_owned()),
            credentials: credentials.into(),
        }
    }

    /// Client settings for its bucket.
    pub fn config(&self) -> S3Config {
        self.config_at(self.port)
    }

    /// Writes an object without the client.
    pub fn put_object(&self, key: &str, bytes: &[u8]) {
        let put = request(self.port, "PUT", &format!("/{}/{key}", Self::BUCKET), bytes);
        assert_eq!(put.status, 200, "the bucket accepts the object");
    }

    /// The object under a key, if it exists.
    pub fn get_object(&self, key: &str) -> Option<Vec<u8>> {
        let result = request(self.port, "GET", &format!("/{}/{key}", Self::BUCKET), &[]);
        (result.status == 200).then_some(result.body)
    }

    /// Number of objects.
    pub fn count_objects(&self) -> usize {
        let path = format!("/{}?list-type=2", Self::BUCKET);
        let listing = request(self.port, "GET", &path, &[]);
        let text = String::from_utf8_lossy(&listing.body).into_owned();
        text.matches("<Key>").count()
    }
}
