//! Addresses of NATS buckets: `nats-kv://bucket/key` and `nats-obj://bucket/name`.
//!
//! The NATS client is in another crate, which implements [`NatsBuckets`].

use async_trait::async_trait;
use model::outcome::{Outcome, TaskError};

use crate::call::Call;

/// Address in a NATS bucket.
#[derive(Debug, PartialEq, Eq)]
pub struct NatsAddress {
    /// The address as the task has it.
    pub uri: String,
    /// Whether the bucket stores objects; otherwise it stores keys with values.
    pub is_object: bool,
    /// Name of the bucket.
    pub bucket: String,
    /// Key, or name of the object.
    pub key: String,
}

/// Access to NATS buckets for the `artifact` tool.
#[async_trait]
pub trait NatsBuckets: Send + Sync {
    /// Runs `action` of a call on the value at an address.
    async fn run_action(&self, call: &Call, action: &str, address: NatsAddress) -> Result<Outcome, TaskError>;
}

impl NatsAddress {
    /// Parses an address; `None` if its scheme is another one.
    pub fn parse(uri: &str) -> Option<Self> {
        let (is_object, address) = match uri.strip_prefix("nats-kv://") {
            Some(address) => (false, address),
            None => (true, uri.strip_prefix("nats-obj://")?),
        };
        let (bucket, key) = address.split_once('/').unwrap_or((address, ""));
        Some(Self {
            uri: uri.to_owned(),
            is_object,
            bucket: bucket.to_owned(),
            key: key.to_owned(),
        })
    }
}
