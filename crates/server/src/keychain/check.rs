//! Checks before the first step: if its credentials cannot be resolved, an execution does not start.

use model::id::ExecutionId;
use model::playbook::{KeychainKind, Playbook};
use model::template::{Data, Scope};
use serde_json::{Map, Value};

use crate::keychain::cached::Owner;
use crate::keychain::entries::Resolving;
use crate::keychain::error::Error;
use crate::keychain::lookup::Keychain;

/// An execution that is about to start.
pub(crate) struct Beginning<'a> {
    pub(crate) playbook: &'a Playbook,
    pub(crate) execution: ExecutionId,
    pub(crate) parent: Option<ExecutionId>,
    pub(crate) path: &'a str,
    pub(crate) workload: Map<String, Value>,
}

impl Keychain {
    /// Whether a playbook has keychain entries or names credentials.
    pub(crate) fn has_names(&self, playbook: &Playbook) -> bool {
        let declared = self.declared(playbook);
        !declared.entries.is_empty() || !declared.names.is_empty()
    }

    /// Resolves every keychain entry and every credential that the tasks of the playbook use. Unused entries are
    /// skipped: an execution must not wait for an endpoint that it does not use.
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

/// Whether resolving a playbook's keychain may need network requests.
pub(crate) fn asks_network(playbook: &Playbook) -> bool {
    let mut entries = playbook.keychain.iter();
    entries.any(|entry| matches!(entry.kind, KeychainKind::Token | KeychainKind::Vault))
}
