//! Task logs in JSON lines files, one per execution. A position in the log is an offset in the file.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use model::id::ExecutionId;
use model::task_log::LogLine;

use super::task_logs::{LOG_BYTES_MAX, LOG_FULL_MESSAGE, LogPage, LogPosition, LogQuery, StoredLine, TaskLogs};
use crate::Error;
use crate::files::run_blocking;
use crate::private_dir::make_private_dir;

/// Number of bytes that are read at a time from the end of a log.
const BLOCK_BYTES: u64 = 256 * 1024;

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
    Ok(read_page(dir, execution, &query)?.into_lines())
}

fn read_page(dir: &Path, execution: ExecutionId, query: &LogQuery) -> io::Result<LogPage> {
    let file = match File::open(log_path(dir, execution)) {
        Ok(file) => Some(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    match (file, query.position) {
        (Some(file), LogPosition::After(after)) => read_forward(file, query, after),
        (Some(file), LogPosition::Before(before)) => read_backward(file, query, Some(before)),
        (Some(file), LogPosition::End) => read_backward(file, query, None),
        (None, LogPosition::After(position) | LogPosition::Before(position)) => Ok(LogPage {
            next_after: position,
            ..LogPage::default()
        }),
        (None, LogPosition::End) => Ok(LogPage::default()),
    }
}

fn read_forward(mut file: File, query: &LogQuery, after: u64) -> io::Result<LogPage> {
    let mut page = LogPage::after(after);
    file.seek(SeekFrom::Start(after))?;
    let mut reader = BufReader::new(file);
    let mut text = Vec::new();
    while page.lines.len() < query.limit {
        text.clear();
        let read = reader.read_until(b'\n', &mut text)?;
        if text.last() != Some(&b'\n') {
            break;
        }
        page.next_after += read as u64;
        page.lines.extend(parse_line(&text, page.next_after, query));
    }
    Ok(page)
}

/// Reads the last matching lines before a position, block by block from the end.
fn read_backward(mut file: File, query: &LogQuery, before: Option<u64>) -> io::Result<LogPage> {
    let limit = before.unwrap_or(u64::MAX);
    let mut end = file.metadata()?.len().min(limit);
    let mut block_bytes = BLOCK_BYTES;
    let mut lines = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(block_bytes);
        let mut block = Vec::new();
        file.seek(SeekFrom::Start(start))?;
        (&file).take(end - start).read_to_end(&mut block)?;
        let line_start = match block.iter().position(|byte| *byte == b'\n') {
            _ if start == 0 => 0,
            Some(index) if index + 1 < block.len() => index + 1,
            _ => {
                // A line is longer than the block.
                block_bytes *= 2;
                continue;
            }
        };
        let mut position = start + line_start as u64;
        let texts = block[line_start..].split_inclusive(|byte| *byte == b'\n').map(|text| {
            position += text.len() as u64;
            (text, position)
        });
        let texts: Vec<(&[u8], u64)> = texts.collect();
        for (text, position) in texts.into_iter().rev() {
            if text.last() != Some(&b'\n') || position >= limit {
                continue;
            }
            if lines.len() == query.limit {
                return Ok(LogPage::from_newest(lines, before, true));
            }
            lines.extend(parse_line(text, position, query));
        }
        end = start + line_start as u64;
        block_bytes = BLOCK_BYTES;
    }
    Ok(LogPage::from_newest(lines, before, false))
}

/// The line that a text contains, if it matches.
fn parse_line(text: &[u8], position: u64, query: &LogQuery) -> Option<StoredLine> {
    let line = serde_json::from_slice::<LogLine>(text).ok()?;
    query.matches(&line).then_some(StoredLine { position, line })
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
    fn lines_longer_than_a_block_are_read_from_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let logs = FileLogs::open(dir.path()).unwrap();
        let block = usize::try_from(BLOCK_BYTES).unwrap();
        let lengths = [1, 3 * block, 10, block, 5];
        let lines = lengths.map(|length| log_line(&"x".repeat(length)));
        for line in &lines {
            logs.write(line).unwrap();
        }
        let query = |position, limit| LogQuery {
            position,
            limit,
            ..LogQuery::default()
        };
        let read = |query: &LogQuery| read_page(dir.path(), ExecutionId(7), query).unwrap();
        let whole = read(&query(LogPosition::End, 10));
        assert!(!whole.has_earlier);
        assert_eq!(whole.into_lines(), lines);
        let tail = read(&query(LogPosition::End, 2));
        assert!(tail.has_earlier);
        let before = read(&query(LogPosition::Before(tail.lines[0].position), 10));
        assert_eq!(tail.into_lines(), lines[3..]);
        assert_eq!(before.into_lines(), lines[..3]);
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
