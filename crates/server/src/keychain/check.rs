//! Checks before the first step: if its credentials cannot be resolved, an execution does not start.

use language::playbook::{KeychainKind, Playbook};
use language::template::{LazyValue, Scope};
use model::id::ExecutionId;
use serde_json::{Map, Value};

use crate::keychain::cache::EntryOwner;
use crate::keychain::entries::EntryResolver;
use crate::keychain::error::Error;
use crate::keychain::shared::Keychain;

/// An execution that is about to start.
pub(crate) struct StartingExecution<'a> {
    pub(crate) playbook: &'a Playbook,
    pub(crate) execution: ExecutionId,
    pub(crate) parent: Option<ExecutionId>,
    pub(crate) path: &'a str,
    pub(crate) workload: Map<String, Value>,
}

impl Keychain {
    /// Whether a playbook has keychain entries or names credentials.
    pub(crate) fn has_secrets(&self, playbook: &Playbook) -> bool {
        let declared = self.declared_secrets(playbook);
        !declared.entries.is_empty() || !declared.names.is_empty()
    }

    /// Resolves every keychain entry and every credential that the tasks of the playbook use. Unused entries are
    /// skipped: an execution must not wait for an endpoint that it does not use.
    pub(crate) async fn check_execution(&self, run: StartingExecution<'_>) -> Result<(), Error> {
        let declared = self.declared_secrets(run.playbook);
        let scope = Scope {
            workload: LazyValue::new(Value::Object(run.workload)),
            ..Scope::default()
        };
        let owner = EntryOwner {
            execution: run.execution,
            parent: run.parent,
            path: run.path.to_owned(),
        };
        let names = declared.used_names(&scope);
        let mut resolving = EntryResolver::new(self, declared.clone(), owner, scope);
        for name in &names {
            resolving.resolve(name).await?;
        }
        Ok(())
    }
}

/// Whether resolving a playbook's keychain may need network requests.
pub(crate) fn needs_network(playbook: &Playbook) -> bool {
    let mut entries = playbook.keychain.iter();
    entries.any(|entry| matches!(entry.kind, KeychainKind::Token | KeychainKind::Vault))
}
