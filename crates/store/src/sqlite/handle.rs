//! One process's handle to a store in a directory: the queue of its writer thread and its read connections.

use std::fs::File;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::{Notify, Semaphore, oneshot};

use crate::commit::Priority;
use crate::error::Error;
use crate::ids::IdGenerator;
use crate::sqlite::clock::ClockFn;
use crate::sqlite::function_job::FunctionJob;
use crate::sqlite::open::ConnectionRole;
use crate::sqlite::owner_locks::{OwnerLock, OwnerLocks};
use crate::sqlite::queries::ReadError;
use crate::sqlite::read_pool::ReadPool;
use crate::sqlite::writer::{WriteConnection, WriteError, WriteJob, WriteRefusal, WriterRequest};
use crate::sqlite::{clock, open, writer};

/// Capacity of the write queue. When it is full, callers wait for a permit.
const QUEUE_MAX: usize = 4_096;

/// A store in a local directory.
pub struct SqliteStore {
    pub(super) clock: ClockFn,
    pub(super) owners: OwnerLocks,
    pub(super) owner_lock: Mutex<Option<OwnerLock>>,
    pub(super) ids: OnceLock<(IdGenerator, Option<File>)>,
    pub(super) readers: ReadPool,
    pub(super) queue_permits: Arc<Semaphore>,
    pub(super) queue: Option<Sender<WriterRequest>>,
    pub(super) write_connection: Option<Arc<Mutex<WriteConnection>>>,
    pub(super) refusal: WriteRefusal,
    pub(super) thread: Option<JoinHandle<()>>,
    pub(super) foreign_commits: Arc<Notify>,
    pub(super) publishes: bool,
}

impl SqliteStore {
    /// Opens the store in a directory, and creates it if there is none.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        Self::open_with_clock(dir, clock::steady_clock())
    }

    /// The same, with another clock than the machine's.
    pub fn open_with_clock(dir: &Path, clock: ClockFn) -> Result<Self, Error> {
        let file = open::prepare_directory(dir)?;
        let mut db = open::connect(&file, ConnectionRole::Writer)?;
        open::migrate(&mut db, &file)?;
        let readers = ReadPool::new(&file, |file| open::connect(file, ConnectionRole::Reader));
        Self::from_connections(dir, clock, db, readers)
    }

    /// Opens the store in a directory for reading, even if it cannot be written; writes are then refused.
    pub fn open_to_read(dir: &Path) -> Result<Self, Error> {
        match Self::open(dir) {
            Err(Error::ReadOnly { .. } | Error::Full { .. }) => {
                let file = open::prepare_directory(dir)?;
                let db = open::connect_to_read(&file)?;
                open::check_schema(&db, &file)?;
                let readers = ReadPool::new(&file, open::connect_to_read);
                Self::from_connections(dir, clock::steady_clock(), db, readers)
            }
            opened => opened,
        }
    }

    fn from_connections(dir: &Path, clock: ClockFn, db: Connection, readers: ReadPool) -> Result<Self, Error> {
        let file = readers.file().to_owned();
        let foreign_commits = Arc::new(Notify::new());
        let started = writer::start_writer(db, &file, Arc::clone(&foreign_commits))?;
        Ok(Self {
            clock,
            owners: OwnerLocks::new(dir),
            owner_lock: Mutex::new(None),
            ids: OnceLock::new(),
            readers,
            queue_permits: Arc::new(Semaphore::new(QUEUE_MAX)),
            write_connection: Some(started.connection),
            refusal: started.refusal,
            queue: Some(started.queue),
            thread: Some(started.thread),
            foreign_commits,
            publishes: false,
        })
    }

    /// The same store, with commits that write rows to the outbox for a publisher.
    #[must_use]
    pub fn with_outbox(mut self) -> Self {
        self.publishes = true;
        self
    }

    pub(super) fn lock_owner(&self) -> MutexGuard<'_, Option<OwnerLock>> {
        self.owner_lock.lock().expect("taking ownership does not panic")
    }

    pub(super) fn send_request(&self, request: WriterRequest) -> Result<(), Error> {
        let queue = self.queue.as_ref();
        let queue = queue.expect("the queue exists until the store is dropped");
        queue.send(request).map_err(|_| stopped_error())
    }

    pub(super) async fn enqueue(&self, job: Box<dyn WriteJob>) -> Result<(), Error> {
        let queue_permit = Arc::clone(&self.queue_permits).acquire_owned().await;
        let permit = queue_permit.map_err(|_| stopped_error())?;
        self.send_request(WriterRequest::Job(job, permit))
    }

    /// Runs a write that is not a commit, in the next group.
    pub(super) async fn write<T, F>(&self, run: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T, WriteError> + Send + 'static,
    {
        self.write_with(Priority::Normal, run).await
    }

    /// The same, with a priority.
    pub(super) async fn write_with<T, F>(&self, priority: Priority, run: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T, WriteError> + Send + 'static,
    {
        let (reply, reply_receiver) = oneshot::channel();
        let job = FunctionJob::new(run, priority, reply);
        self.enqueue(Box::new(job)).await?;
        reply_receiver.await.map_err(|_| stopped_error())?
    }

    /// Runs a query on its own connection, outside the async threads.
    pub(super) async fn read<T, F>(&self, query: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, ReadError> + Send + 'static,
    {
        self.readers.run_query(query).await
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        drop(self.queue.take());
        drop(self.write_connection.take());
        if let Some(thread) = self.thread.take() {
            // Queued writes finish before the drop returns; a panic in the thread was already reported to its callers.
            let _ = thread.join();
        }
    }
}

pub(super) fn stopped_error() -> Error {
    Error::Unavailable("the writer thread of the store has stopped".into())
}
