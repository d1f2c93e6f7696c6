//! Task logs in JSON lines files, one per execution. A position in the log is an offset in the file.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use model::id::ExecutionId;
use model::task_log::LogLine;

use super::task_logs::{LOG_BYTES_MAX, LOG_FULL_MESSAGE, LogPage, LogQuery, TaskLogs};
use crate::Error;
use crate::files::run_blocking;
use crate::private_dir::make_private_dir;

/// Maximum number of open files.
const OPEN_FILES_MAX: usize = 64;

/// Task logs in files, `DIR/<execution>.ndjson`.
#[derive(Debug, Clone)]
pub struct FileLogs {
    dir: PathBuf,
    open_files: Arc<Mutex<HashMap<ExecutionId, LogFile>>>,
}

#[derive(Debug)]
struct LogFile {
    file: File,
    bytes: u64,
}

impl FileLogs {
    /// Opens logs in this directory; creates it if necessary.
    pub fn open(dir: impl Into<PathBuf>) -> io::Result<Self> {
        let dir = dir.into();
        make_private_dir(&dir)?;
        Ok(Self {
            dir,
            open_files: Arc::default(),
        })
    }

    /// Appends one line; readers see it at once.
    pub fn write(&self, line: &LogLine) -> io::Result<()> {
        let mut open = self.open_files.lock().expect("the lock is not poisoned");
        if !open.contains_key(&line.execution) {
            if open.len() >= OPEN_FILES_MAX {
                // A file is opened again when its execution prints more.
                open.clear();
            }
            open.insert(line.execution, LogFile::open(&self.dir, line.execution)?);
        }
        let file = open.get_mut(&line.execution).expect("the file was just opened");
        file.append(line)
    }

    fn disk_error(&self, error: io::Error) -> Error {
        let file = self.dir.clone();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Full { file },
            _ => Error::Unavailable { file, source: error },
        }
    }
}

impl LogFile {
    fn open(dir: &Path, execution: ExecutionId) -> io::Result<Self> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(log_path(dir, execution))?;
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
            text = serde_json::to_vec(&line.annotation(LOG_FULL_MESSAGE.to_owned()))?;
            text.push(b'\n');
        }
        // Unbuffered: users follow running tasks, and the last lines before a crash matter most.
        self.file.write_all(&text)
    }
}

#[async_trait]
impl TaskLogs for FileLogs {
    async fn append(&self, lines: &[LogLine]) -> Result<(), Error> {
        let (logs, lines) = (self.clone(), lines.to_vec());
        let written = run_blocking(move || {
            let mut lines = lines.iter();
            lines.try_for_each(|line| logs.write(line))
        });
        let written = written.await.expect("writing lines does not panic");
        written.map_err(|error| self.disk_error(error))
    }

    async fn read(&self, execution: ExecutionId, query: &LogQuery) -> Result<LogPage, Error> {
        let (dir, query) = (self.dir.clone(), query.clone());
        let page = run_blocking(move || read_page(&dir, execution, &query));
        let page = page.await.expect("reading lines does not panic");
        page.map_err(|error| self.disk_error(error))
    }
}

/// Reads everything that an execution printed, in order. Empty if it printed nothing; omits an incomplete last line.
pub fn read_logs(dir: &Path, execution: ExecutionId) -> io::Result<Vec<LogLine>> {
    let query = LogQuery {
        limit: usize::MAX,
        ..LogQuery::default()
    };
    Ok(read_page(dir, execution, &query)?.lines)
}

fn read_page(dir: &Path, execution: ExecutionId, query: &LogQuery) -> io::Result<LogPage> {
    let mut page = LogPage {
        lines: Vec::new(),
        next_after: query.after,
    };
    let mut file = match File::open(log_path(dir, execution)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(page),
        Err(error) => return Err(error),
    };
    file.seek(SeekFrom::Start(query.after))?;
    let mut reader = BufReader::new(file);
    let mut text = Vec::new();
    while page.lines.len() < query.limit {
        text.clear();
        let read = reader.read_until(b'\n', &mut text)?;
        if text.last() != Some(&b'\n') {
            break;
        }
        page.next_after += read as u64;
        let line = serde_json::from_slice::<LogLine>(&text).ok();
        page.lines.extend(line.filter(|line| query.matches(line)));
    }
    Ok(page)
}

fn log_path(dir: &Path, execution: ExecutionId) -> PathBuf {
    dir.join(format!("{execution}.ndjson"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::log_line;

    crate::logs_contract_suite!({
        let dir = tempfile::tempdir().unwrap();
        let logs: Arc<dyn TaskLogs> = Arc::new(FileLogs::open(dir.path()).unwrap());
        (logs, dir)
    });

    #[tokio::test]
    async fn a_torn_last_line_is_read_once_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let logs = FileLogs::open(dir.path()).unwrap();
        logs.write(&log_line("one")).unwrap();
        let mut file = OpenOptions::new()
            .append(true)
            .open(log_path(dir.path(), ExecutionId(7)))
            .unwrap();
        let text = serde_json::to_string(&log_line("two")).unwrap();
        let (start, end) = text.split_at(10);
        file.write_all(start.as_bytes()).unwrap();
        assert_eq!(read_logs(dir.path(), ExecutionId(7)).unwrap(), [log_line("one")]);
        file.write_all(format!("{end}\n").as_bytes()).unwrap();
        let read = read_logs(dir.path(), ExecutionId(7)).unwrap();
        assert_eq!(read, [log_line("one"), log_line("two")]);
    }

    #[test]
    fn a_log_is_truncated_at_its_limit_with_a_notice() {
        let dir = tempfile::tempdir().unwrap();
        let logs = FileLogs::open(dir.path()).unwrap();
        let long = "x".repeat(1024 * 1024);
        for _ in 0..20 {
            logs.write(&log_line(&long)).unwrap();
        }
        let read = read_logs(dir.path(), ExecutionId(7)).unwrap();
        assert_eq!(read.len(), 16);
        assert!(read.last().unwrap().text.contains("the log is full"));
        let bytes = std::fs::metadata(log_path(dir.path(), ExecutionId(7))).unwrap().len();
        assert!(bytes <= LOG_BYTES_MAX);
    }
}
