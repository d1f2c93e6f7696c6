//! Task logs: the lines that user code prints, one file of JSON lines per execution.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use model::id::{ExecutionId, Name};
use model::time::Time;
use serde::{Deserialize, Serialize};

/// What an execution may print; the rest is dropped, and the log says so.
pub const LOG_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Files kept open at once.
const OPEN_MAX: usize = 64;

/// One line a task printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// When.
    pub time: Time,
    /// The execution.
    pub execution: ExecutionId,
    /// The step.
    pub step: Name,
    /// Counts the step's runs from 1.
    pub run: u32,
    /// The loop index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u64>,
    /// The task's label.
    pub task: Name,
    /// Counts the entries of that label from 1.
    pub visit: u32,
    /// Counts the tries from 1.
    pub attempt: u32,
    /// Where it was printed to.
    pub stream: LogStream,
    /// The line, without its end.
    pub text: String,
}

/// The stream a line was printed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Takes the lines that tasks print.
pub trait Logs: Send + Sync {
    /// Takes one line; readers see it at once.
    fn line(&self, line: &LogLine);
}

/// Logs in files, `DIR/<execution>.ndjson`.
#[derive(Debug)]
pub struct FileLogs {
    dir: PathBuf,
    open: Mutex<HashMap<ExecutionId, LogFile>>,
}

#[derive(Debug)]
struct LogFile {
    file: File,
    bytes: u64,
}

impl FileLogs {
    /// Logs in that folder, which is made if it is not there.
    pub fn open(dir: impl Into<PathBuf>) -> io::Result<Self> {
        let dir = dir.into();
        fs::create_dir_all(&dir)?;
        Ok(Self {
            dir,
            open: Mutex::default(),
        })
    }

    fn append(&self, line: &LogLine) -> io::Result<()> {
        let mut open = self.open.lock().expect("no holder of the log files panics");
        if !open.contains_key(&line.execution) {
            if open.len() >= OPEN_MAX {
                // A file is opened again when its execution prints more.
                open.clear();
            }
            open.insert(line.execution, LogFile::open(&self.dir, line.execution)?);
        }
        let file = open
            .get_mut(&line.execution)
            .expect("the file was just opened");
        file.append(line)
    }
}

impl LogFile {
    fn open(dir: &Path, execution: ExecutionId) -> io::Result<Self> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path(dir, execution))?;
        let bytes = file.metadata()?.len();
        Ok(Self { file, bytes })
    }

    fn append(&mut self, line: &LogLine) -> io::Result<()> {
        if self.bytes >= LOG_BYTES_MAX {
            return Ok(());
        }
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.bytes += text.len() as u64;
        if self.bytes >= LOG_BYTES_MAX {
            let mut last = line.clone();
            last.stream = LogStream::Stderr;
            "the log is full; further lines are dropped".clone_into(&mut last.text);
            text = serde_json::to_vec(&last)?;
            text.push(b'\n');
        }
        // Not buffered: people follow a task while it runs, and what it said before a crash matters most.
        self.file.write_all(&text)
    }
}

impl Logs for FileLogs {
    fn line(&self, line: &LogLine) {
        // A full disk must not fail the task whose output it is.
        if let Err(error) = self.append(line) {
            tracing::warn!(%error, execution = %line.execution, "a log line was lost");
        }
    }
}

/// Everything an execution printed, in order. Empty if it printed nothing; a torn last line is left out.
pub fn read_logs(dir: &Path, execution: ExecutionId) -> io::Result<Vec<LogLine>> {
    let file = match File::open(path(dir, execution)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut lines = Vec::new();
    for line in BufReader::new(file).lines() {
        lines.extend(serde_json::from_str(&line?).ok());
    }
    Ok(lines)
}

fn path(dir: &Path, execution: ExecutionId) -> PathBuf {
    dir.join(format!("{execution}.ndjson"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> LogLine {
        LogLine {
            time: Time(1),
            execution: ExecutionId(7),
            step: "s".into(),
            run: 1,
            iteration: None,
            task: "t".into(),
            visit: 1,
            attempt: 1,
            stream: LogStream::Stdout,
            text: text.to_owned(),
        }
    }

    #[test]
    fn what_was_printed_is_read_back_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let logs = FileLogs::open(dir.path()).unwrap();
        logs.line(&line("one"));
        logs.line(&line("two"));
        let read = read_logs(dir.path(), ExecutionId(7)).unwrap();
        assert_eq!(read, [line("one"), line("two")]);
        assert!(read_logs(dir.path(), ExecutionId(8)).unwrap().is_empty());
    }

    #[test]
    fn a_log_is_cut_at_its_bound_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let logs = FileLogs::open(dir.path()).unwrap();
        let long = "x".repeat(1024 * 1024);
        for _ in 0..20 {
            logs.line(&line(&long));
        }
        let read = read_logs(dir.path(), ExecutionId(7)).unwrap();
        assert_eq!(read.len(), 16);
        assert!(read.last().unwrap().text.contains("the log is full"));
        let bytes = fs::metadata(path(dir.path(), ExecutionId(7)))
            .unwrap()
            .len();
        assert!(bytes <= LOG_BYTES_MAX);
    }
}
