//! Writing: jobs that come together share a transaction and a flush to disk.
//!
//! Enters: jobs. Leaves: each job's answer, only after its transaction is durable. A job that breaks an invariant is
//! taken out, and the rest of its group runs again without it. Commits are written by the thread that asks, because a
//! hand-over to another thread and back costs as much as the flush itself; everything else goes through a queue that
//! one thread empties.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{Notify, OwnedSemaphorePermit};

use crate::error::Error;
use crate::sqlite::{failure, open};

/// At most so many jobs share a transaction.
const GROUP_MAX: usize = 512;

/// How often other processes' commits are looked for, while someone wants to know.
const WATCH_EVERY: Duration = Duration::from_millis(25);

/// The log beside the database is folded into it after so many jobs, off this thread.
const CHECKPOINT_EVERY: usize = 512;

/// So long a fold on this thread waits for readers before it gives way to the queue.
const CHECKPOINT_WAIT: Duration = Duration::from_millis(100);

/// Above this the fold happens here, so that a store under constant load does not grow without end.
const WAL_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// One thing to write.
pub(super) trait Job: Send {
    /// Writes inside the transaction; runs again if the group is rolled back.
    fn run(&mut self, db: &Connection) -> Result<(), Refused>;
    /// Says how it went, once that is certain.
    fn answer(self: Box<Self>, outcome: Result<(), Error>);
}

/// Why a job did not write.
pub(super) enum Refused {
    /// Its own fault: the others go on without it.
    Alone(Error),
    /// The database's: nobody goes on.
    Group(rusqlite::Error),
}

impl From<rusqlite::Error> for Refused {
    fn from(error: rusqlite::Error) -> Self {
        Self::Group(error)
    }
}

/// What the thread is asked.
pub(super) enum Request {
    /// To write; the permit bounds the queue.
    Job(Box<dyn Job>, OwnedSemaphorePermit),
    /// To tell of other processes' commits from now on.
    Watch,
}

/// The connection that writes, and what keeps the log beside the database small.
pub(super) struct Pen {
    db: Connection,
    file: PathBuf,
    checkpoint: SyncSender<()>,
    since_checkpoint: usize,
}

struct Writer {
    pen: Arc<Mutex<Pen>>,
    queue: Receiver<Request>,
    foreign_commits: Arc<Notify>,
    /// The version last seen, once someone watches.
    watched: Option<i64>,
}

/// The writing side of a store.
pub(super) struct Started {
    pub(super) pen: Arc<Mutex<Pen>>,
    pub(super) queue: Sender<Request>,
    /// The threads, to be waited for once the queue and the pen are gone.
    pub(super) threads: Vec<thread::JoinHandle<()>>,
}

/// Starts the threads; they end when every sender is gone.
pub(super) fn start(
    db: Connection,
    file: &Path,
    foreign_commits: Arc<Notify>,
) -> Result<Started, Error> {
    let (sender, queue) = mpsc::channel();
    let (checkpoint, checkpoints) = start_checkpoints(file)?;
    let pen = Arc::new(Mutex::new(Pen {
        db,
        file: file.to_owned(),
        checkpoint,
        since_checkpoint: 0,
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
        queue: sender,
        threads: vec![thread, checkpoints],
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

fn start_checkpoints(file: &Path) -> Result<(SyncSender<()>, thread::JoinHandle<()>), Error> {
    let (sender, asked) = sync_channel::<()>(1);
    let db = open::connect(file)?;
    let thread = spawn("store-checkpoint", move || {
        while asked.recv().is_ok() {
            checkpoint(&db, "PASSIVE");
        }
    })?;
    Ok((sender, thread))
}

/// A checkpoint that fails costs disk space only; the next one tries again.
fn checkpoint(db: &Connection, mode: &str) {
    let done = db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()));
    if let Err(error) = done {
        tracing::warn!(%error, "checkpoint failed");
    }
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

    /// Takes what waits, or waits for something; false once nobody can ask any more.
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

    /// Tells of commits by other connections; this connection's own do not count.
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
    /// Writes a group and answers its members.
    pub(super) fn write(&mut self, group: &mut Vec<Box<dyn Job>>) {
        self.since_checkpoint += group.len();
        while !group.is_empty() {
            match self.attempt(group) {
                Ok(()) => {
                    for job in group.drain(..) {
                        job.answer(Ok(()));
                    }
                }
                Err((index, Refused::Alone(error))) => group.remove(index).answer(Err(error)),
                Err((_, Refused::Group(error))) => {
                    tracing::warn!(%error, jobs = group.len(), "a group of commits failed");
                    for job in group.drain(..) {
                        job.answer(Err(failure::name(&self.file, copy(&error))));
                    }
                }
            }
        }
        self.tidy();
    }

    /// Runs the group in one transaction; names the job at which it failed.
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
            // A rollback that fails leaves a transaction open, which the next BEGIN reports.
            let _ = run("ROLLBACK");
        }
        result
    }

    fn tidy(&mut self) {
        if self.since_checkpoint < CHECKPOINT_EVERY {
            return;
        }
        self.since_checkpoint = 0;
        let wal = self.file.with_extension("db-wal");
        let bytes = std::fs::metadata(wal).map_or(0, |meta| meta.len());
        if bytes > WAL_BYTES_MAX {
            self.truncate();
        } else {
            // A full channel means that a checkpoint is already on its way.
            let _ = self.checkpoint.try_send(());
        }
    }

    fn truncate(&self) {
        let waits = |time| {
            if let Err(error) = self.db.busy_timeout(time) {
                tracing::warn!(%error, "the busy timeout could not be set");
            }
        };
        waits(CHECKPOINT_WAIT);
        checkpoint(&self.db, "TRUNCATE");
        waits(open::BUSY_MAX);
    }

    fn foreign_version(&self) -> Option<i64> {
        self.db
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
            .ok()
    }
}

/// The same error for each member of a group.
fn copy(error: &rusqlite::Error) -> rusqlite::Error {
    match error {
        rusqlite::Error::SqliteFailure(code, text) => {
            rusqlite::Error::SqliteFailure(*code, text.clone())
        }
        other => rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ERROR),
            Some(other.to_string()),
        ),
    }
}
