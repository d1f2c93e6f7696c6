//! The secrets that a playbook uses: its keychain entries, and the names in each step.

use std::collections::{BTreeMap, BTreeSet};

use language::playbook::credentials::{CredentialUses, credential_names_in};
use language::playbook::{KeychainEntry, Playbook};
use language::template::Scope;
use model::id::Name;

/// The secrets that a playbook uses.
pub(crate) struct DeclaredSecrets {
    /// Keychain entries, in order.
    pub(super) entries: Vec<KeychainEntry>,
    /// The names that each step uses, with the tool kinds of its tasks.
    steps: BTreeMap<Name, (CredentialUses, Vec<Name>)>,
    /// All names that are written literally in steps.
    pub(super) names: BTreeSet<String>,
}

impl DeclaredSecrets {
    pub(super) fn from_playbook(playbook: &Playbook) -> Self {
        let steps = playbook.steps.iter().filter_map(|step| {
            let opens = CredentialUses::from_step(step);
            let kinds = step.all_tasks().map(|task| task.kind.clone()).collect();
            (!opens.is_empty()).then(|| (step.name.clone(), (opens, kinds)))
        });
        Self {
            entries: playbook.keychain.clone(),
            steps: steps.collect(),
            names: CredentialUses::names_in_playbook(playbook),
        }
    }

    /// Finds an entry by name.
    pub(super) fn entry(&self, name: &str) -> Option<&KeychainEntry> {
        self.entries.iter().find(|entry| entry.name == *name)
    }

    /// Names that the steps use, as far as they are known before the execution starts: entries in their order, then
    /// credentials.
    pub(super) fn used_names(&self, scope: &Scope) -> Vec<String> {
        let reads_any = self.steps.values().any(|(opens, _)| opens.reads_any_entry);
        let mut rendered = BTreeSet::new();
        for (opens, kinds) in self.steps.values() {
            let values = opens.name_templates.iter();
            for value in values.filter_map(|tree| tree.render(scope).ok()) {
                let names = kinds.iter();
                rendered.extend(names.flat_map(|kind| credential_names_in(kind.as_str(), &value.value)));
            }
        }
        let is_opened = |name: &str| reads_any || self.names.contains(name) || rendered.contains(name);
        let entries = self.entries.iter().map(|entry| entry.name.to_string());
        let entries = entries.filter(|name| is_opened(name));
        let credentials = self.names.iter().filter(|name| self.entry(name).is_none());
        entries.chain(credentials.cloned()).collect()
    }

    /// Whether the step names it literally, or it is an entry and the step may read any entry.
    pub(super) fn is_declared(&self, step: &Name, name: &str) -> bool {
        let Some((opens, _)) = self.steps.get(step) else {
            return false;
        };
        let may_be_entry = opens.reads_any_entry || !opens.name_templates.is_empty();
        opens.names.contains(name) || (may_be_entry && self.entry(name).is_some())
    }

    /// Whether some names of the step are templates.
    pub(super) fn has_rendered_names(&self, step: &Name) -> bool {
        let opens = self.steps.get(step);
        opens.is_some_and(|(opens, _)| !opens.name_templates.is_empty())
    }

    /// Whether one of the step's templates evaluates to the name in this scope.
    pub(super) fn is_rendered_name(&self, step: &Name, name: &str, scope: &Scope) -> bool {
        let Some((opens, kinds)) = self.steps.get(step) else {
            return false;
        };
        let values = opens.name_templates.iter().filter_map(|tree| tree.render(scope).ok());
        let mut values = values.map(|rendered| rendered.value);
        let names_credential = |value: &serde_json::Value| {
            let mut kinds = kinds.iter();
            kinds.any(|kind| credential_names_in(kind.as_str(), value).contains(name))
        };
        values.any(|value| names_credential(&value))
    }
}
