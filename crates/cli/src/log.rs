//! A run read from its log: the view, the playbook, the result. Nothing here writes.

use std::sync::Arc;

use model::id::{ExecutionId, PlaybookHash};
use model::playbook::Playbook;
use results::Stores;
use serde_json::Value;
use server::{KeychainConfig, Reader, ResultAddress};
use store::Store;

use crate::problem::Problem;
use crate::view::RunView;

/// How many events are read at once.
pub(crate) const PAGE: usize = 5_000;

/// What runs are read from.
#[derive(Clone)]
pub(crate) struct Log {
    /// The store.
    pub(crate) store: Arc<dyn Store>,
    /// Bodies too large for it.
    pub(crate) bodies: Arc<Stores>,
    /// How credentials are sealed and resolved.
    pub(crate) keychain: KeychainConfig,
}

impl Log {
    /// The playbook of a run, where it can be read; `name` is what places in it are called by.
    pub(crate) async fn playbook(
        &self,
        hash: &PlaybookHash,
        name: &str,
    ) -> Result<Option<Playbook>, Problem> {
        let Some(entry) = self.store.playbook(hash).await? else {
            return Ok(None);
        };
        Ok(model::playbook::parse(name, entry.text.as_bytes()).playbook)
    }

    /// The result of a run; null if it has none, or has not ended well.
    pub(crate) async fn result(&self, id: ExecutionId, view: &RunView) -> Result<Value, Problem> {
        let Some(pointer) = view.result.as_ref().filter(|_| view.error.is_none()) else {
            return Ok(Value::Null);
        };
        let reader = self.reader();
        let address = ResultAddress::of_step(pointer.step.clone());
        match reader.find(id, &address).await? {
            Some(found) => Ok(reader.value(found).await?),
            None => Ok(Value::Null),
        }
    }

    /// What reads results.
    pub(crate) fn reader(&self) -> Reader {
        Reader::new(self.store.clone(), self.bodies.clone())
    }
}
