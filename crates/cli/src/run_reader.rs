//! Read-only access to a run in a store: its playbook and results.

use std::sync::Arc;

use language::playbook::{Playbook, SharedPlaybooks};
use model::id::{ExecutionId, PlaybookHash};
use results::{ByteStream, StoreRouter};
use server::{KeychainConfig, ResultAddress, ResultReader};
use store::Store;

use crate::cli_error::CliError;

/// Number of events that are read at once.
pub(crate) const EVENTS_PAGE_MAX: usize = 5_000;

/// Reads runs from a store.
#[derive(Clone)]
pub(crate) struct RunReader {
    /// The store.
    pub(crate) store: Arc<dyn Store>,
    /// Result stores for results that are too large for the log.
    pub(crate) bodies: Arc<StoreRouter>,
    /// How credentials are encrypted and resolved.
    pub(crate) keychain: KeychainConfig,
    /// Parsed playbooks of this process.
    pub(crate) playbooks: SharedPlaybooks,
}

impl RunReader {
    /// Loads and parses the playbook of a run; `None` if it is missing or invalid. Diagnostics refer to it as `name`.
    pub(crate) async fn playbook(&self, hash: &PlaybookHash, name: &str) -> Result<Option<Arc<Playbook>>, CliError> {
        let Some(entry) = self.store.playbook(hash).await? else {
            return Ok(None);
        };
        Ok(self.playbooks.parse(name, &entry.text).ok())
    }

    /// Reads a result of a run as JSON text.
    pub(crate) async fn result(
        &self,
        id: ExecutionId,
        address: &ResultAddress,
    ) -> Result<Option<ByteStream>, CliError> {
        let reader = self.result_reader();
        match reader.find(id, address).await? {
            Some(located) => Ok(Some(reader.stream_json(located).await?)),
            None => Ok(None),
        }
    }

    /// Returns a reader of results.
    pub(crate) fn result_reader(&self) -> ResultReader {
        ResultReader::new(self.store.clone(), self.bodies.clone())
    }
}
