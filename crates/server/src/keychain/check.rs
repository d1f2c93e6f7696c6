//! Before step 1: a run whose credentials cannot be had does not begin.

use engine::Net;
use model::id::ExecutionId;
use model::playbook::{KeychainKind, Playbook};
use model::raw::Raw;
use model::template::{Data, Scope};
use serde_json::Value;

use crate::keychain::cached::Owner;
use crate::keychain::entries::Resolving;
use crate::keychain::error::Error;
use crate::keychain::lookup::Keychain;

/// A run that is about to begin.
pub(crate) struct Beginning<'a> {
    pub(crate) net: &'a Net,
    pub(crate) execution: ExecutionId,
    pub(crate) parent: Option<ExecutionId>,
    pub(crate) path: &'a str,
    pub(crate) payload: Option<&'a Raw>,
}

impl Keychain {
    /// Resolves the playbook's keychain, and finds every credential that its tasks name.
    pub(crate) async fn check(&self, run: Beginning<'_>) -> Result<(), Error> {
        let declared = self.declared(&run.net.playbook);
        if declared.entries.is_empty() && declared.names.is_empty() {
            return Ok(());
        }
        let workload = run.net.workload_with(run.payload);
        let scope = Scope {
            workload: Data::new(Value::Object(workload)),
            ..Scope::default()
        };
        let owner = Owner {
            execution: run.execution,
            parent: run.parent,
            path: run.path.to_owned(),
        };
        let entries = declared.entries.iter().map(|entry| entry.name.as_str());
        let named = declared.names.iter().map(String::as_str);
        let mut resolving = Resolving::new(self, declared.clone(), owner, scope);
        for name in entries.chain(named) {
            resolving.resolve(name).await?;
        }
        Ok(())
    }
}

/// Whether resolving a playbook's keychain may take a request over the network.
pub(crate) fn asks_network(playbook: &Playbook) -> bool {
    let mut entries = playbook.keychain.iter();
    entries.any(|entry| matches!(entry.kind, KeychainKind::Token | KeychainKind::Vault))
}
