//! Before step 1: a run whose credentials cannot be had does not begin.

use model::id::ExecutionId;
use model::playbook::{KeychainKind, Playbook};
use model::template::{Data, Scope};
use serde_json::{Map, Value};

use crate::keychain::cached::Owner;
use crate::keychain::entries::Resolving;
use crate::keychain::error::Error;
use crate::keychain::lookup::Keychain;

/// A run that is about to begin.
pub(crate) struct Beginning<'a> {
    pub(crate) playbook: &'a Playbook,
    pub(crate) execution: ExecutionId,
    pub(crate) parent: Option<ExecutionId>,
    pub(crate) path: &'a str,
    pub(crate) workload: Map<String, Value>,
}

impl Keychain {
    /// Whether a playbook has entries or names credentials.
    pub(crate) fn has_names(&self, playbook: &Playbook) -> bool {
        let declared = self.declared(playbook);
        !declared.entries.is_empty() || !declared.names.is_empty()
    }

    /// Resolves every entry of the keychain and every credential that the playbook's tasks name. Entries that nothing
    /// names are left alone: a run must not wait for an endpoint that it does not use.
    pub(crate) async fn check(&self, run: Beginning<'_>) -> Result<(), Error> {
        let declared = self.declared(run.playbook);
        let scope = Scope {
            workload: Data::new(Value::Object(run.workload)),
            ..Scope::default()
        };
        let owner = Owner {
            execution: run.execution,
            parent: run.parent,
            path: run.path.to_owned(),
        };
        let names = declared.opened_names(&scope);
        let mut resolving = Resolving::new(self, declared.clone(), owner, scope);
        for name in &names {
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
