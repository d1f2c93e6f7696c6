//! Resources that several tool kinds of one worker share.

use std::sync::Arc;

use crate::artifact::NatsBuckets;
use crate::call::Tool;
use crate::http::{HttpClients, HttpTool};
use crate::objects::ObjectAccess;
use crate::registry::Config;
use crate::script::{ScriptLoader, ScriptLoadingTool};

/// Resources that several tool kinds of one worker share.
pub struct SharedResources {
    /// Configuration of the kinds.
    pub config: Config,
    /// HTTP clients with their limits per host.
    pub clients: Arc<HttpClients>,
    /// The `http` tool.
    pub http: Arc<HttpTool>,
    /// Access to files and buckets.
    pub object_access: ObjectAccess,
    /// Access to NATS buckets; `None` in a binary without the kind `nats`.
    pub(crate) nats_buckets: Option<Arc<dyn NatsBuckets>>,
    scripts: Arc<ScriptLoader>,
}

impl SharedResources {
    /// Resources without access to NATS buckets.
    pub fn new(config: Config) -> Self {
        let clients = Arc::new(HttpClients::new(config.http, &config.network));
        let http = HttpTool::new(clients.clone(), config.scratch_dir.clone())
            .with_forbidden_files(config.forbidden_files.clone());
        let object_access = ObjectAccess {
            forbidden: config.forbidden_files.clone(),
            guard: clients.guard.clone(),
            scratch_dir: config.scratch_dir.clone(),
        };
        Self {
            config,
            http: Arc::new(http),
            object_access,
            nats_buckets: None,
            scripts: Arc::new(ScriptLoader::new(clients.clone())),
            clients,
        }
    }

    /// Returns the resources with access to NATS buckets.
    #[must_use]
    pub fn with_nats_buckets(mut self, buckets: Arc<dyn NatsBuckets>) -> Self {
        self.nats_buckets = Some(buckets);
        self
    }

    /// Returns the tool with `script`: the program is loaded into the field `key` before the tool is called.
    pub fn with_scripts(&self, tool: Arc<dyn Tool>, key: &'static str) -> Arc<dyn Tool> {
        Arc::new(ScriptLoadingTool::new(tool, self.scripts.clone(), key))
    }
}
