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
use crate::sqlite::{failure, filesystem};

/// Maximum number of jobs that share a transaction.
const GROUP_MAX: usize = 512;

/// Interval at which other processes' commits are checked for, once a caller watches.
const WATCH_EVERY: Duration = Duration::from_millis(25);

/// A write.
pub(super) trait Job: Send {
    /// Writes inside the transaction; runs again if the group is rolled back.
    fn run(&mut self, db: &Connection) -> Result<(), Refused>;
    /// Whether it may use the reserve when the disk is full.
    fn priority(&self) -> Priority {
        Priority::Normal
    }
    /// Sends the result, once it is final.
    fn answer(self: Box<Self>, outcome: Result<(), Error>);
}

/// Why a job did not write.
pub(super) enum Refused {
    /// The job itself is invalid: the others continue without it.
    Alone(Error),
    /// The database failed: the whole group fails.
    Group(rusqlite::Error),
}

impl From<rusqlite::Error> for Refused {
    fn from(error: rusqlite::Error) -> Self {
        Self::Group(error)
    }
}

/// A request to the writer thread.
pub(super) enum Request {
    /// Run a job; the permit limits the queue.
    Job(Box<dyn Job>, OwnedSemaphorePermit),
    /// Start to notify of other processes' commits.
    Watch,
}

/// The connection that writes.
pub(super) struct Pen {
    db: Connection,
    file: PathBuf,
    refusal: Refusal,
    reserve: Reserve,
}

/// Minimum free space for a full store to count as writable again; less would be used up immediately.
const ROOM_MIN: u64 = 256 * 1024;

/// Why the store accepts no writes, from the first refused write until one succeeds.
#[derive(Clone, Default)]
pub(super) struct Refusal(Arc<Mutex<Option<Error>>>);

impl Refusal {
    fn state(&self) -> MutexGuard<'_, Option<Error>> {
        self.0.lock().expect("accessing the refusal does not panic")
    }

    /// The error, if writes are refused.
    pub(super) fn error(&self) -> Option<Error> {
        self.state().as_ref().and_then(Error::refused_write)
    }

    /// Records that a write failed.
    fn failed(&self, error: &Error) {
        let Some(refused) = error.refused_write() else {
            tracing::warn!(%error, "failed to write a group of commits");
            return;
        };
        if self.state().replace(refused).is_none() {
            tracing::error!(code = error.code(), %error, "store accepts no writes");
        }
    }

    /// Records that a write succeeded.
    fn succeeded(&self, file: &Path) {
        let mut state = self.state();
        if state.is_some() && !is_scarce(file) {
            *state = None;
            tracing::info!("store accepts writes again");
        }
    }
}

/// Whether so little disk space is left that the next write may be refused.
pub(super) fn is_scarce(file: &Path) -> bool {
    filesystem::free_bytes(file).is_some_and(|free| free < ROOM_MIN)
}

/// A write that changes nothing, to check whether the store accepts writes.
struct Probe;

impl Job for Probe {
    fn run(&mut self, db: &Connection) -> Result<(), Refused> {
        db.prepare_cached(
            "INSERT OR REPLACE INTO setting (key, value) VALUES ('write_probe', '')",
        )?
        .execute([])?;
        Ok(())
    }

    fn answer(self: Box<Self>, _outcome: Result<(), Error>) {}
}

struct Writer {
    pen: Arc<Mutex<Pen>>,
    queue: Receiver<Request>,
    foreign_commits: Arc<Notify>,
    /// The last seen version, once a caller watches.
    watched: Option<i64>,
}

/// The parts of the writer that the store uses.
pub(super) struct Started {
    pub(super) pen: Arc<Mutex<Pen>>,
    pub(super) refusal: Refusal,
    pub(super) queue: Sender<Request>,
    /// The thread, to be joined after the queue is dropped.
    pub(super) thread: thread::JoinHandle<()>,
}

/// Starts the thread; it ends when every sender is dropped.
pub(super) fn start(
    db: Connection,
    file: &Path,
    foreign_commits: Arc<Notify>,
) -> Result<Started, Error> {
    let (sender, queue) = mpsc::channel();
    let refusal = Refusal::default();
    let pen = Arc::new(Mutex::new(Pen {
        db,
        file: file.to_owned(),
        refusal: refusal.clone(),
        reserve: Reserve::open(file),
    }));
    let writer = Writer {
        pen: Arc::clone(&pen),
        queue,
        foreign_commits,
        watched: None,
    };
    let thread = spawn("store-writer", move || writer.run())?;
    Ok(Started {
        pen,
        refusal,
        queue: sender,
        thread,
    })
}

fn spawn(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> Result<thread::JoinHandle<()>, Error> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .map_err(|error| Error::Unavailable(error.into()))
}

impl Writer {
    fn run(mut self) {
        let mut group = Vec::with_capacity(GROUP_MAX);
        while self.fill(&mut group) {
            if !group.is_empty() {
                self.pen().write(&mut group);
            }
            self.watch();
        }
    }

    fn pen(&self) -> MutexGuard<'_, Pen> {
        self.pen.lock().expect("writing does not panic")
    }

    /// Takes the queued requests, or waits for one. Returns false once all senders are dropped.
    fn fill(&mut self, group: &mut Vec<Box<dyn Job>>) -> bool {
        let first = if self.watched.is_some() {
            match self.queue.recv_timeout(WATCH_EVERY) {
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
        self.take(first, group);
        while group.len() < GROUP_MAX {
            match self.queue.try_recv() {
                Ok(request) => self.take(request, group),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        true
    }

    fn take(&mut self, request: Request, group: &mut Vec<Box<dyn Job>>) {
        match request {
            Request::Job(job, _permit) => group.push(job),
            Request::Watch if self.watched.is_none() => {
                let version = self.pen().foreign_version();
                self.watched = version;
            }
            Request::Watch => {}
        }
    }

    /// Notifies of commits by other connections; this connection's own commits do not count.
    fn watch(&mut self) {
        let Some(seen) = self.watched else { return };
        let version = self.pen().foreign_version();
        if let Some(version) = version.filter(|version| *version != seen) {
            self.watched = Some(version);
            self.foreign_commits.notify_waiters();
        }
    }
}

impl Pen {
    /// Writes a group and sends the results.
    pub(super) fn write(&self, group: &mut Vec<Box<dyn Job>>) {
        if !self.reserve.refill() {
            // The free space was released for control requests.
            self.refuse_normal(group);
        }
        while !group.is_empty() {
            match self.attempt(group) {
                Ok(()) => {
                    if self.reserve.is_whole() {
                        self.refusal.succeeded(&self.file);
                    }
                    for job in group.drain(..) {
                        job.answer(Ok(()));
                    }
                }
                Err((index, Refused::Alone(error))) => group.remove(index).answer(Err(error)),
                Err((_, Refused::Group(error))) => {
                    let named = || failure::name(&self.file, copy(&error));
                    self.refusal.failed(&named());
                    if matches!(named(), Error::Full { .. }) {
                        self.refuse_normal(group);
                        for mut job in group.drain(..) {
                            let outcome = self.write_from_reserve(&mut job);
                            job.answer(outcome);
                        }
                    }
                    for job in group.drain(..) {
                        job.answer(Err(named()));
                    }
                }
            }
        }
    }

    /// Refuses the jobs of a group that may not use the reserve, because the disk is full.
    fn refuse_normal(&self, group: &mut Vec<Box<dyn Job>>) {
        for job in group.extract_if(.., |job| job.priority() == Priority::Normal) {
            let file = self.file.clone();
            let error = Error::Full { file };
            self.refusal.failed(&error);
            job.answer(Err(error));
        }
    }

    /// Writes a control request on a full disk, with as much of the reserve as it needs.
    fn write_from_reserve(&self, job: &mut Box<dyn Job>) -> Result<(), Error> {
        let exhausted = || Error::ReserveExhausted {
            file: self.file.clone(),
        };
        let reserve = self.reserve.lock().ok_or_else(exhausted)?;
        while reserve.release() {
            self.checkpoint();
            let error = match self.attempt(slice::from_mut(job)) {
                Ok(()) => return Ok(()),
                Err((_, Refused::Alone(error))) => return Err(error),
                Err((_, Refused::Group(error))) => failure::name(&self.file, error),
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
        let moved = self
            .db
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        if let Err(error) = moved {
            tracing::debug!(%error, "failed to checkpoint the write-ahead log");
        }
    }

    /// Checks whether a store that refused a write accepts one now.
    pub(super) fn probe(&self) {
        self.write(&mut vec![Box::new(Probe)]);
    }

    /// Runs the group in one transaction. On failure, returns the index of the failed job.
    fn attempt(&self, group: &mut [Box<dyn Job>]) -> Result<(), (usize, Refused)> {
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
fn copy(error: &rusqlite::Error) -> rusqlite::Error {
    match error {
        rusqlite::Error::SqliteFailure(code, text) => {
            rusqlite::Error::SqliteFailure(*code, text.clone())
        }
        other => {
            let code = if failure::is_damage(other) {
                rusqlite::ffi::SQLITE_CORRUPT
            } else {
                rusqlite::ffi::SQLITE_ERROR
            };
            let failure = rusqlite::ffi::Error::new(code);
            rusqlite::Error::SqliteFailure(failure, Some(other.to_string()))
        }
    }
}
