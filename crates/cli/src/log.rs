//! Read-only access to a run in a store: its playbook and results.

use std::sync::Arc;

use model::id::{ExecutionId, PlaybookHash};
use model::playbook::Playbook;
use results::{Pieces, Stores};
use server::{KeychainConfig, Reader, ResultAddress};
use store::Store;

use crate::problem::Problem;

/// Number of events that are read at once.
pub(crate) const PAGE: usize = 5_000;

/// Reads runs from a store.
#[derive(Clone)]
pub(crate) struct Log {
    /// The store.
    pub(crate) store: Arc<dyn Store>,
    /// Result stores for results that are too large for the log.
    pub(crate) bodies: Arc<Stores>,
    /// How credentials are encrypted and resolved.
    pub(crate) keychain: KeychainConfig,
}

impl Log {
    /// Loads and parses the playbook of a run; `None` if it is missing or invalid. Diagnostics refer to it as `name`.
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

    /// Reads a result of a run as JSON text.
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

    /// Returns a reader of results.
    pub(crate) fn reader(&self) -> Reader {
        Reader::new(self.store.clone(), self.bodies.clone())
    }
}
