//! A write given as a function, run as a job of the writer thread.

use rusqlite::Connection;
use tokio::sync::oneshot::Sender;

use crate::commit::Priority;
use crate::error::Error;
use crate::sqlite::writer::{WriteError, WriteJob};

/// A write function, and the channel for its result.
pub(super) struct FunctionJob<T, F> {
    run: F,
    priority: Priority,
    value: Option<T>,
    reply: Sender<Result<T, Error>>,
}

impl<T, F> FunctionJob<T, F> {
    pub(super) fn new(run: F, priority: Priority, reply: Sender<Result<T, Error>>) -> Self {
        Self {
            run,
            priority,
            value: None,
            reply,
        }
    }
}

impl<T, F> WriteJob for FunctionJob<T, F>
where
    T: Send,
    F: FnMut(&Connection) -> Result<T, WriteError> + Send,
{
    fn run(&mut self, db: &Connection) -> Result<(), WriteError> {
        self.value = Some((self.run)(db)?);
        Ok(())
    }

    fn priority(&self) -> Priority {
        self.priority
    }

    fn reply(self: Box<Self>, outcome: Result<(), Error>) {
        let Self { value, reply, .. } = *self;
        // The caller may have gone away; the write is durable anyway.
        let _ = reply.send(outcome.map(|()| value.expect("a job that ran has a value")));
    }
}
