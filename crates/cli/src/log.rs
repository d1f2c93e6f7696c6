//! A run read from its log: the view, the playbook, the result. Nothing here writes.

use std::sync::Arc;

use model::id::{ExecutionId, PlaybookHash};
use model::playbook::Playbook;
use results::{Pieces, Stores};
use server::{KeychainConfig, Reader, ResultAddress};
use store::Store;

use crate::problem::Problem;

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

    /// A result of a run as JSON text.
    pub(crate) async fn result(
        &self,
        id: ExecutionId,
        address: &ResultAddress,
    ) -> Result<Option<Pieces>, Problem> {
        let reader = self.reader();
        match reader.find(id, address).await? {
            Some(found) => Ok(Some(reader.json_pieces(found).await?)),
            None => Ok(None),
        }
    }

    /// What reads results.
    pub(crate) fn reader(&self) -> Reader {
        Reader::new(self.store.clone(), self.bodies.clone())
    }
}
