//! Storage of a world: the store in memory, and bodies by their hash.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use language::playbook::Task;
use model::id::ExecutionId;
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::playbook::ResultControl;
use model::result_ref::{INLINE_BYTES_MAX, ResultRef};
use model::size::fits_json_bytes;
use model::time::Time;
use pipeline::OutcomeRecord;
use results::{BodySource, BodyStore, Error, LargeResult, ResultOrigin, StoredBody};
use serde_json::{Map, Value};
use sha2::Digest as _;
use store::MemoryStore;

use crate::world::load::block_on_ready;

/// The store, to which it derefs, and the bodies that its logs refer to.
pub struct WorldStore {
    store: MemoryStore,
    bodies: Mutex<BTreeMap<String, Bytes>>,
}

/// Owner and time of a stored result or write.
#[derive(Clone, Copy)]
pub(crate) struct BodyOwner<'a> {
    pub(crate) execution: ExecutionId,
    pub(crate) location: &'a model::event::EventLocation,
    pub(crate) now: Time,
}

impl Deref for WorldStore {
    type Target = MemoryStore;

    fn deref(&self) -> &MemoryStore {
        &self.store
    }
}

#[async_trait]
impl BodyStore for WorldStore {
    async fn put(&self, body: BodySource<'_>) -> Result<StoredBody, Error> {
        let BodySource::Bytes(bytes) = body else {
            unreachable!("a world has no streams")
        };
        let sha256 = hex::encode(sha2::Sha256::digest(&bytes));
        let stored = StoredBody {
            compression: None,
            sha256: sha256.clone(),
            bytes: bytes.len() as u64,
            store: "disk",
            location: Map::new(),
        };
        self.lock_bodies().insert(sha256, bytes);
        Ok(stored)
    }

    async fn get(&self, reference: &ResultRef) -> Result<Bytes, Error> {
        let found = self.lock_bodies().get(&reference.meta.sha256).cloned();
        found.ok_or_else(|| Error::NotAvailable {
            uri: reference.uri.clone(),
        })
    }

    async fn delete(&self, reference: &ResultRef) -> Result<(), Error> {
        self.lock_bodies().remove(&reference.meta.sha256);
        Ok(())
    }
}

impl WorldStore {
    /// An empty store.
    pub fn new(store: MemoryStore) -> Self {
        Self {
            store,
            bodies: Mutex::default(),
        }
    }

    fn lock_bodies(&self) -> MutexGuard<'_, BTreeMap<String, Bytes>> {
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stored body.
    pub fn body(&self, reference: &ResultRef) -> Option<Value> {
        let bytes = block_on_ready(self.get(reference)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// The outcome as the log records it: a large result becomes a reference, like in a worker.
    pub(crate) fn store_outcome(
        &self,
        owner: BodyOwner<'_>,
        task: &Task,
        outcome: Outcome,
    ) -> Outcome {
        let Outcome::Ok(mut success) = outcome else {
            return outcome;
        };
        let value = std::mem::take(&mut success.result);
        let selection = results::select_fields(&value, &task.result);
        if fits_json_bytes(&value, inline_bytes_max(task)) {
            success.result = value;
            success.selected = selection.unwrap_or_default().fields;
            return Outcome::Ok(success);
        }
        match self.store_body(owner, &value, &task.result) {
            Ok(reference) => success.reference = Some(Box::new(reference)),
            Err(error) => {
                let message = error.to_string();
                return Outcome::error(TaskError::new(ErrorKind::Storage, error.code(), message));
            }
        }
        Outcome::Ok(success)
    }

    /// Stores large values as bodies and replaces them with references, like a worker does.
    pub(crate) fn store_writes(&self, owner: BodyOwner<'_>, record: &mut OutcomeRecord) {
        for (key, value) in record.writes.large_values() {
            let mut at = owner.location.clone();
            at.task = at.task.map(|task| format!("{task}/set/{key}").into());
            let whole = std::mem::take(value);
            let part = BodyOwner {
                location: &at,
                ..owner
            };
            if let Ok(reference) = self.store_body(part, &whole, &ResultControl::default()) {
                *value = serde_json::to_value(&reference).expect("a reference can be serialized");
            }
        }
        record.record_writes();
    }

    /// Stores the elements of a loop as a body.
    pub(crate) fn store_elements(&self, owner: BodyOwner<'_>, elements: &Value) -> ResultRef {
        let total = elements.as_array().map_or(0, Vec::len);
        let stored = self.store_body(owner, elements, &ResultControl::default());
        let mut reference = stored.expect("memory accepts every body");
        reference.extracted.insert("total".to_owned(), total.into());
        reference
    }

    fn store_body(
        &self,
        owner: BodyOwner<'_>,
        value: &Value,
        control: &ResultControl,
    ) -> Result<ResultRef, Error> {
        let place = ResultOrigin {
            execution: owner.execution,
            location: owner.location,
            now: owner.now,
        };
        block_on_ready(LargeResult::new(value, control)?.store(self, place))
    }
}

/// Maximum size of a task's inline result.
fn inline_bytes_max(task: &Task) -> usize {
    let asked = task.result.inline_bytes_max.unwrap_or(u64::MAX);
    usize::try_from(asked).map_or(INLINE_BYTES_MAX, |asked| asked.min(INLINE_BYTES_MAX))
}
