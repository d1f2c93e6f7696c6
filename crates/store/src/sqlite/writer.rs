//! Writes: concurrent jobs share a transaction and a flush to disk.
//!
//! Input: jobs. Output: the result of each job, after its transaction is durable. A job that violates an invariant is
//! removed, and its group runs again without it. The calling thread writes commits itself, because a handover to
//! another thread and back costs as much as the flush. All other jobs go through a queue that one thread processes.

use std::path::{Path, PathBuf};
use std::slice;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{Notify, OwnedSemaphorePermit};

use crate::commit::Priority;
use crate::error::Error;
use crate::sqlite::reserve::Reserve;
use crate::sqlite::{filesystem, store_error};

/// Maximum number of jobs that share a transaction.
const GROUP_JOBS_MAX: usize = 512;

/// Interval at which other processes' commits are checked for, once a caller watches.
const WATCH_INTERVAL: Duration = Duration::from_millis(25);

/// A write.
pub(super) trait WriteJob: Send {
    /// Writes inside the transaction; runs again if the group is rolled back.
    fn run(&mut self, db: &Connection) -> Result<(), WriteError>;
    /// Whether it may use the reserve when the disk is full.
    fn priority(&self) -> Priority {
        Priority::Normal
    }
    /// Sends the result, once it is final.
    fn reply(self: Box<Self>, outcome: Result<(), Error>);
}

/// Why a job did not write.
pub(super) enum WriteError {
    /// The job itself is invalid: the others continue without it.
    Job(Error),
    /// The database failed: the whole group fails.
    Group(rusqlite::Error),
}

impl From<rusqlite::Error> for WriteError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Group(error)
    }
}

/// A request to the writer thread.
pub(super) enum WriterRequest {
    /// Run a job; the permit limits the queue.
    Job(Box<dyn WriteJob>, OwnedSemaphorePermit),
    /// Start to notify of other processes' commits.
    Watch,
}

/// The connection that writes.
pub(super) struct WriteConnection {
    db: Connection,
    file: PathBuf,
    refusal: WriteRefusal,
    reserve: Reserve,
}

/// Minimum free space for a full store to count as writable again; less would be used up immediately.
const WRITABLE_BYTES_MIN: u64 = 256 * 1024;

/// Why the store accepts no writes, from the first refused write until one succeeds.
#[derive(Clone, Default)]
pub(super) struct WriteRefusal(Arc<Mutex<Option<Error>>>);

impl WriteRefusal {
    fn state(&self) -> MutexGuard<'_, Option<Error>> {
        self.0.lock().expect("accessing the refusal does not panic")
    }

    /// The error, if writes are refused.
    pub(super) fn error(&self) -> Option<Error> {
        self.state().as_ref().and_then(Error::to_write_refusal)
    }

    /// Records that a write failed.
    fn record_failure(&self, error: &Error) {
        let Some(refused) = error.to_write_refusal() else {
            tracing::warn!(%error, "failed to write a group of commits");
            return;
        };
        if self.state().replace(refused).is_none() {
            tracing::error!(code = error.code(), %error, "store accepts no writes");
        }
    }

    /// Records that a write succeeded.
    fn record_success(&self, file: &Path) {
        let mut state = self.state();
        if state.is_some() && !is_scarce(file) {
            *state = None;
            tracing::info!("store accepts writes again");
        }
    }
}

/// Whether so little disk space is left that the next write may be refused.
pub(super) fn is_scarce(file: &Path) -> bool {
    filesystem::free_bytes(file).is_some_and(|free| free < WRITABLE_BYTES_MIN)
}

/// A write that changes nothing, to check whether the store accepts writes.
struct ProbeJob;

impl WriteJob for ProbeJob {
    fn run(&mut self, db: &Connection) -> Result<(), WriteError> {
        db.prepare_cached("INSERT OR REPLACE INTO setting (key, value) VALUES ('write_probe', '')")?
            .execute([])?;
        Ok(())
    }

    fn reply(self: Box<Self>, _outcome: Result<(), Error>) {}
}

struct WriterThread {
    connection: Arc<Mutex<WriteConnection>>,
    queue: Receiver<WriterRequest>,
    foreign_commits: Arc<Notify>,
    /// The last seen version, once a caller watches.
    watched_version: Option<i64>,
}

/// The parts of the writer that the store uses.
pub(super) struct WriterHandles {
    pub(super) connection: Arc<Mutex<WriteConnection>>,
    pub(super) refusal: WriteRefusal,
    pub(super) queue: Sender<WriterRequest>,
    /// The thread, to be joined after the queue is dropped.
    pub(super) thread: thread::JoinHandle<()>,
}

/// Starts the thread; it ends when every sender is dropped.
pub(super) fn start_writer(db: Connection, file: &Path, foreign_commits: Arc<Notify>) -> Result<WriterHandles, Error> {
    let (sender, queue) = mpsc::channel();
    let refusal = WriteRefusal::default();
    let connection = Arc::new(Mutex::new(WriteConnection {
        db,
        file: file.to_owned(),
        refusal: refusal.clone(),
        reserve: Reserve::open(file),
    }));
    let writer = WriterThread {
        connection: Arc::clone(&connection),
        queue,
        foreign_commits,
        watched_version: None,
    };
    let thread = spawn_thread("store-writer", move || writer.run())?;
    Ok(WriterHandles {
        connection,
        refusal,
        queue: sender,
        thread,
    })
}

fn spawn_thread(name: &str, body: impl FnOnce() + Send + 'static) -> Result<thread::JoinHandle<()>, Error> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .map_err(|error| Error::Unavailable(error.into()))
}

impl WriterThread {
    fn run(mut self) {
        let mut group = Vec::with_capacity(GROUP_JOBS_MAX);
        while self.fill_group(&mut group) {
            if !group.is_empty() {
                self.lock_connection().write_group(&mut group);
            }
            self.check_foreign_commits();
        }
    }

    fn lock_connection(&self) -> MutexGuard<'_, WriteConnection> {
        self.connection.lock().expect("writing does not panic")
    }

    /// Takes the queued requests, or waits for one. Returns false once all senders are dropped.
    fn fill_group(&mut self, group: &mut Vec<Box<dyn WriteJob>>) -> bool {
        let first = if self.watched_version.is_some() {
            match self.queue.recv_timeout(WATCH_INTERVAL) {
                Ok(request) => request,
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        } else {
            match self.queue.recv() {
                Ok(request) => request,
                Err(_) => return false,
            }
        };
        self.handle_request(first, group);
        while group.len() < GROUP_JOBS_MAX {
            match self.queue.try_recv() {
                Ok(request) => self.handle_request(request, group),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        true
    }

    fn handle_request(&mut self, request: WriterRequest, group: &mut Vec<Box<dyn WriteJob>>) {
        match request {
            WriterRequest::Job(job, _permit) => group.push(job),
            WriterRequest::Watch if self.watched_version.is_none() => {
                let version = self.lock_connection().foreign_version();
                self.watched_version = version;
            }
            WriterRequest::Watch => {}
        }
    }

    /// Notifies of commits by other connections; this connection's own commits do not count.
    fn check_foreign_commits(&mut self) {
        let Some(last_version) = self.watched_version else {
            return;
        };
        let version = self.lock_connection().foreign_version();
        if let Some(version) = version.filter(|version| *version != last_version) {
            self.watched_version = Some(version);
            self.foreign_commits.notify_waiters();
        }
    }
}

impl WriteConnection {
    /// Writes a group and sends the results.
    pub(super) fn write_group(&self, group: &mut Vec<Box<dyn WriteJob>>) {
        if !self.reserve.refill() {
            // The free space was released for control requests.
            self.refuse_normal(group);
        }
        while !group.is_empty() {
            match self.try_group(group) {
                Ok(()) => {
                    if self.reserve.is_full() {
                        self.refusal.record_success(&self.file);
                    }
                    for job in group.drain(..) {
                        job.reply(Ok(()));
                    }
                }
                Err((index, WriteError::Job(error))) => group.remove(index).reply(Err(error)),
                Err((_, WriteError::Group(error))) => {
                    let to_error = || store_error::into_store_error(&self.file, copy_error(&error));
                    self.refusal.record_failure(&to_error());
                    if matches!(to_error(), Error::Full { .. }) {
                        self.refuse_normal(group);
                        for mut job in group.drain(..) {
                            let outcome = self.write_from_reserve(&mut job);
                            job.reply(outcome);
                        }
                    }
                    for job in group.drain(..) {
                        job.reply(Err(to_error()));
                    }
                }
            }
        }
    }

    /// Refuses the jobs of a group that may not use the reserve, because the disk is full.
    fn refuse_normal(&self, group: &mut Vec<Box<dyn WriteJob>>) {
        for job in group.extract_if(.., |job| job.priority() == Priority::Normal) {
            let file = self.file.clone();
            let error = Error::Full { file };
            self.refusal.record_failure(&error);
            job.reply(Err(error));
        }
    }

    /// Writes a control request on a full disk, with as much of the reserve as it needs.
    fn write_from_reserve(&self, job: &mut Box<dyn WriteJob>) -> Result<(), Error> {
        let exhausted = || Error::ReserveExhausted {
            file: self.file.clone(),
        };
        let reserve = self.reserve.lock().ok_or_else(exhausted)?;
        while reserve.release() {
            self.checkpoint();
            let error = match self.try_group(slice::from_mut(job)) {
                Ok(()) => return Ok(()),
                Err((_, WriteError::Job(error))) => return Err(error),
                Err((_, WriteError::Group(error))) => store_error::into_store_error(&self.file, error),
            };
            if !matches!(error, Error::Full { .. }) {
                return Err(error);
            }
        }
        Err(exhausted())
    }

    /// Moves the write-ahead log into the database, so that the next commit reuses the space of the log. If that is
    /// not possible, the log grows.
    fn checkpoint(&self) {
        let progress = self.db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        if let Err(error) = progress {
            tracing::debug!(%error, "failed to checkpoint the write-ahead log");
        }
    }

    /// Checks whether a store that refused a write accepts one now.
    pub(super) fn probe(&self) {
        self.write_group(&mut vec![Box::new(ProbeJob)]);
    }

    /// Runs the group in one transaction. On failure, returns the index of the failed job.
    fn try_group(&self, group: &mut [Box<dyn WriteJob>]) -> Result<(), (usize, WriteError)> {
        let run = |sql: &str| self.db.prepare_cached(sql)?.execute([]);
        let result = (|| {
            run("BEGIN IMMEDIATE").map_err(|error| (0, error.into()))?;
            for (index, job) in group.iter_mut().enumerate() {
                job.run(&self.db).map_err(|refused| (index, refused))?;
            }
            run("COMMIT").map_err(|error| (0, error.into()))?;
            Ok(())
        })();
        if result.is_err() && !self.db.is_autocommit() {
            // If the rollback fails, a transaction stays open, which the next BEGIN reports.
            let _ = run("ROLLBACK");
        }
        result
    }

    fn foreign_version(&self) -> Option<i64> {
        self.db
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
            .ok()
    }
}

/// A copy of the error for each member of a group.
fn copy_error(error: &rusqlite::Error) -> rusqlite::Error {
    match error {
        rusqlite::Error::SqliteFailure(code, text) => rusqlite::Error::SqliteFailure(*code, text.clone()),
        other => {
            let code = if store_error::is_damage(other) {
                rusqlite::ffi::SQLITE_CORRUPT
            } else {
                rusqlite::ffi::SQLITE_ERROR
            };
            let failure = rusqlite::ffi::Error::new(code);
            rusqlite::Error::SqliteFailure(failure, Some(other.to_string()))
        }
    }
}
