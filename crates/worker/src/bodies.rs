//! Where bodies go: the part of the result store that a worker uses.

use async_trait::async_trait;
use model::event::At;
use model::id::ExecutionId;
use model::playbook::ResultControl;
use model::result_ref::ResultRef;
use serde_json::Value;

/// A body to be kept.
#[derive(Debug, Clone, Copy)]
pub struct Body<'a> {
    /// The execution it belongs to.
    pub execution: ExecutionId,
    /// Where in the execution it was made.
    pub at: &'a At,
    /// Which write of the task it is; none for the task's result.
    pub name: Option<&'a str>,
    /// The value.
    pub value: &'a Value,
    /// What its author asked for.
    pub control: &'a ResultControl,
}

/// Why a body could not be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not there, or not any more.
    #[error("the body {0} is not there")]
    NotFound(String),
    /// What is there is not what was stored.
    #[error("the body {0} is not what was stored")]
    Corrupt(String),
    /// The store cannot answer now.
    #[error("the store of bodies is unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Keeps bodies too large for the log, and gives them back.
#[async_trait]
pub trait Bodies: Send + Sync {
    /// Stores the body; answers when it is durable, with its extracted fields and preview.
    async fn put(&self, body: Body<'_>) -> Result<ResultRef, Error>;

    /// The value behind a reference.
    async fn get(&self, reference: &ResultRef) -> Result<Value, Error>;
}
