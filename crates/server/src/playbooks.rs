//! Playbooks by hash: reads them from the catalog, parses them, and caches them while they are in use and memory
//! allows.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use engine::{ExecutionLimits, PlaybookNet};
use language::diagnostic::Diagnostic;
use language::playbook::SharedPlaybooks;
use model::cache::BoundedCache;
use model::id::PlaybookHash;
use store::{CatalogEntry, Store};

use crate::error::Error;

/// Memory limit for cached playbooks that no execution uses.
const NETS_BYTES_MAX: u64 = 64 << 20;

/// Measured size in memory of a parsed playbook per byte of its text.
const NET_BYTES_PER_BYTE: u64 = 64;

/// Memory limit for the texts that were registered last.
const ENTRIES_BYTES_MAX: u64 = 8 << 20;

/// Minimum of `in_use_max`: from this number on, unused playbooks are removed from `in_use` whenever their number has
/// doubled.
const IN_USE_MIN: usize = 512;

/// The parsed playbooks of this process.
pub(crate) struct PlaybookCatalog {
    store: Arc<dyn Store>,
    playbooks: SharedPlaybooks,
    limits: ExecutionLimits,
    playbook_dir: Option<PathBuf>,
    nets: Mutex<NetCache>,
    /// The last text this process registered under each path.
    entries: Mutex<BoundedCache<String, CatalogEntry>>,
}

/// Parsed playbooks.
struct NetCache {
    /// Most recently used playbooks.
    recent: BoundedCache<PlaybookHash, Arc<PlaybookNet>>,
    /// Playbooks that executions use, so that executions of one playbook share its net.
    in_use: HashMap<PlaybookHash, Weak<PlaybookNet>>,
    /// Size of `in_use` at which unused entries are removed.
    in_use_max: usize,
}

impl NetCache {
    fn get(&mut self, hash: &PlaybookHash) -> Option<Arc<PlaybookNet>> {
        if let Some(net) = self.recent.get(hash) {
            return Some(net);
        }
        let net = self.in_use.get(hash)?.upgrade()?;
        self.insert(hash.clone(), &net);
        Some(net)
    }

    fn insert(&mut self, hash: PlaybookHash, net: &Arc<PlaybookNet>) {
        let weight = net.playbook.source.text.len() as u64 * NET_BYTES_PER_BYTE;
        self.recent.insert(hash.clone(), net.clone(), weight);
        self.in_use.insert(hash, Arc::downgrade(net));
        if self.in_use.len() > self.in_use_max {
            self.in_use.retain(|_, net| net.strong_count() > 0);
            self.in_use_max = (2 * self.in_use.len()).max(IN_USE_MIN);
        }
    }
}

/// A registered playbook with its net.
#[derive(Debug)]
pub(crate) struct RegisteredPlaybook {
    pub(crate) entry: CatalogEntry,
    pub(crate) net: Arc<PlaybookNet>,
}

/// Why a playbook cannot run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlaybookError {
    #[error("the playbook has errors")]
    Invalid(Vec<Diagnostic>),
    #[error("playbook `{0}` is not in the catalog")]
    NotFound(String),
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl PlaybookCatalog {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        playbooks: SharedPlaybooks,
        limits: ExecutionLimits,
        playbook_dir: Option<PathBuf>,
    ) -> Self {
        Self {
            store,
            playbooks,
            limits,
            playbook_dir,
            nets: Mutex::new(NetCache {
                recent: BoundedCache::new(NETS_BYTES_MAX),
                in_use: HashMap::new(),
                in_use_max: IN_USE_MIN,
            }),
            entries: Mutex::new(BoundedCache::new(ENTRIES_BYTES_MAX)),
        }
    }

    /// Limits of the executions of this server.
    pub(crate) fn limits(&self) -> ExecutionLimits {
        self.limits
    }

    /// Returns the net of a playbook in the catalog.
    pub(crate) async fn net(&self, hash: &PlaybookHash) -> Result<Arc<PlaybookNet>, Error> {
        if let Some(net) = self.cached_net(hash) {
            return Ok(net);
        }
        let entry = self.store.playbook(hash).await?;
        let entry = entry.ok_or_else(|| Error::NoPlaybook(hash.clone()))?;
        let parsed = self.playbooks.parse(entry.path.as_str(), &entry.text);
        let playbook = parsed.map_err(|_| Error::NoPlaybook(hash.clone()))?;
        Ok(self.cache_net(hash.clone(), PlaybookNet::new(playbook, self.limits)))
    }

    /// Checks a text and registers it under `path`, unless it is the last text that this process registered there.
    pub(crate) async fn register(&self, path: &str, text: &str) -> Result<RegisteredPlaybook, PlaybookError> {
        if let Some(entry) = self.entries().get(path).filter(|entry| *entry.text == *text)
            && let Some(net) = self.cached_net(&entry.hash)
        {
            return Ok(RegisteredPlaybook { entry, net });
        }
        let playbook = self.playbooks.parse(path, text).map_err(PlaybookError::Invalid)?;
        let entry = self.store.put_playbook(path, text).await?;
        let net = self.cache_net(entry.hash.clone(), PlaybookNet::new(playbook, self.limits));
        self.entries()
            .insert(path.to_owned(), entry.clone(), entry.text.len() as u64);
        Ok(RegisteredPlaybook { entry, net })
    }

    fn entries(&self) -> MutexGuard<'_, BoundedCache<String, CatalogEntry>> {
        self.entries.lock().expect("no holder of the cache lock panics")
    }

    /// Finds the playbook that a task of the playbook at `base` calls `path`: a file next to it, or a catalog entry.
    pub(crate) async fn find(
        &self,
        path: &str,
        version: Option<u32>,
        base: &str,
    ) -> Result<RegisteredPlaybook, PlaybookError> {
        if let Some(file) = self.find_file(path, base) {
            let text = tokio::fs::read_to_string(&file).await;
            let text = text.map_err(|_| PlaybookError::NotFound(path.to_owned()))?;
            return self.register(&file.to_string_lossy(), &text).await;
        }
        self.find_in_catalog(path, version).await
    }

    /// Finds a playbook in the catalog: the given version, or the latest.
    pub(crate) async fn find_in_catalog(
        &self,
        path: &str,
        version: Option<u32>,
    ) -> Result<RegisteredPlaybook, PlaybookError> {
        let entry = self.store.catalog_entry(path, version).await?;
        let entry = entry.ok_or_else(|| PlaybookError::NotFound(path.to_owned()))?;
        if let Some(net) = self.cached_net(&entry.hash) {
            return Ok(RegisteredPlaybook { entry, net });
        }
        let parsed = self.playbooks.parse(entry.path.as_str(), &entry.text);
        let playbook = parsed.map_err(PlaybookError::Invalid)?;
        let net = self.cache_net(entry.hash.clone(), PlaybookNet::new(playbook, self.limits));
        Ok(RegisteredPlaybook { entry, net })
    }

    /// Finds a version of the execution's playbook.
    pub(crate) async fn find_version(
        &self,
        row: &store::ExecutionRow,
        version: u32,
    ) -> Result<RegisteredPlaybook, Error> {
        let path = row.path.as_str();
        self.find_in_catalog(path, Some(version))
            .await
            .map_err(|unusable| match unusable {
                PlaybookError::Store(error) => error.into(),
                PlaybookError::NotFound(_) | PlaybookError::Invalid(_) => Error::NoVersion {
                    path: path.to_owned(),
                    version,
                },
            })
    }

    /// Finds a file with this name next to the caller's file or in the server's directory.
    fn find_file(&self, path: &str, base: &str) -> Option<PathBuf> {
        let folder = self.playbook_dir.as_ref()?;
        let base_dir = Path::new(base).parent().unwrap_or(Path::new(""));
        let candidates_for = |path: &str| [folder.join(base_dir).join(path), folder.join(path)];
        let with_suffix = format!("{path}.yaml");
        let mut candidates = candidates_for(path).into_iter().chain(candidates_for(&with_suffix));
        candidates.find(|file| file.is_file())
    }

    fn cached_net(&self, hash: &PlaybookHash) -> Option<Arc<PlaybookNet>> {
        self.nets.lock().expect("no holder of the cache lock panics").get(hash)
    }

    fn cache_net(&self, hash: PlaybookHash, net: PlaybookNet) -> Arc<PlaybookNet> {
        let net = Arc::new(net);
        let mut nets = self.nets.lock().expect("no holder of the cache lock panics");
        nets.insert(hash, &net);
        net
    }
}
