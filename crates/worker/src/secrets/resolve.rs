//! Replaces credential names by their values just before a tool is called, and masks the values afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use language::playbook::credentials::{self, CredentialUses};
use language::template::LazyValue;
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::raw::RawJson;
use pipeline::TaskAttempt;
use serde_json::{Map, Value};
use wire::SecretValue;
use wire::api::SecretsRequest;

use crate::command_context::{CommandContext, WorkError};
use crate::load;
use crate::pipeline_run::PipelineRun;
use crate::render::RenderedCall;
use crate::secrets::{ExecutionSecrets, SecretMasker, strip_userinfo};

impl CommandContext {
    /// Returns the masker for the secrets of the execution; `None` if it has none.
    pub(crate) fn masker(&self) -> Option<Arc<SecretMasker>> {
        self.execution_secrets()?.masker()
    }

    /// Returns the secrets of the execution and keeps them until the command ends.
    fn execution_secrets(&self) -> Option<&Arc<ExecutionSecrets>> {
        if self.secrets.get().is_none() {
            let secrets = self.shared.secret_cache.find(self.execution())?;
            return Some(self.secrets.get_or_init(|| secrets));
        }
        self.secrets.get()
    }

    /// Resolves names of secrets for the command's step.
    async fn resolve_secrets(&self, names: &BTreeSet<String>) -> Result<BTreeMap<String, SecretValue>, WorkError> {
        let step = &self.command.run.step;
        let cached_secrets = self.execution_secrets();
        let mut values = BTreeMap::new();
        let mut missing = Vec::new();
        for name in names {
            match cached_secrets.and_then(|cached_secrets| cached_secrets.find(step, name)) {
                Some(value) => {
                    values.insert(name.clone(), value);
                }
                None => missing.push(name.clone()),
            }
        }
        if missing.is_empty() {
            return Ok(values);
        }
        let claim = self.lease.claim_id();
        let request = SecretsRequest {
            worker: self.shared.config.worker.clone(),
            command: claim.command,
            lease_epoch: claim.lease_epoch,
            names: missing,
        };
        let resolved = load::call_with_retry(self, || self.shared.transport.secrets(&request)).await?;
        let fresh = || self.shared.secret_cache.find_or_create(self.execution());
        self.secrets.get_or_init(fresh).cache_secrets(step, &resolved);
        values.extend(resolved.into_iter().map(|resolved| (resolved.name, resolved.value)));
        Ok(values)
    }

    /// Returns the keychain entries that a task's templates read.
    async fn resolve_keychain(&self, uses: &CredentialUses) -> Result<LazyValue, WorkError> {
        let mut names = uses.keychain.clone();
        if uses.reads_any_entry {
            let entries = self.prepared_playbook.playbook.keychain.iter();
            names.extend(entries.map(|entry| entry.name.to_string()));
        }
        let values = self.resolve_secrets(&names).await?;
        let map = values.into_iter();
        let map: Map<String, Value> = map.map(|(name, value)| (name, value.reveal().clone())).collect();
        Ok(LazyValue::new(Value::Object(map)))
    }
}

impl PipelineRun<'_> {
    /// Returns the credentials that the text of the task refers to.
    fn credential_uses(&self, attempt: &TaskAttempt<'_>) -> &CredentialUses {
        let index = self.step.task(attempt.task.label.as_str());
        let (index, _) = index.expect("the task belongs to the step");
        &self.plan.tasks[index].credential_uses
    }

    /// Makes the keychain entries that the call's templates read available to them.
    pub(crate) async fn load_keychain(&mut self, attempt: &TaskAttempt<'_>) -> Result<(), WorkError> {
        let uses = self.credential_uses(attempt);
        if uses.keychain.is_empty() && !uses.reads_any_entry {
            return Ok(());
        }
        let keychain = self.context.resolve_keychain(uses).await?;
        self.scope.keychain = Some(keychain);
        Ok(())
    }

    /// Replaces credential names by credentials, and masks the call as the log shows it.
    pub(crate) async fn substitute_credentials(
        &mut self,
        attempt: &TaskAttempt<'_>,
        mut rendered_call: RenderedCall,
    ) -> Result<RenderedCall, WorkError> {
        self.mask_derived(&mut rendered_call);
        if !self.credential_uses(attempt).is_empty() {
            let kind = attempt.task.kind.as_str();
            let names = credentials::credential_names(kind, &rendered_call.fields);
            if !names.is_empty() {
                self.check_credential_names(attempt, &names)?;
                let values = self.context.resolve_secrets(&names).await?;
                credentials::substitute(kind, &mut rendered_call.fields, &mut |name| {
                    values.get(name).map(|value| value.reveal().clone())
                });
            }
        }
        if let (Some(masker), Some(recorded_input)) = (self.context.masker(), &rendered_call.recorded_input) {
            let mut masked_input = recorded_input.to_value();
            masker.mask_value(&mut masked_input);
            rendered_call.recorded_input = Some(RawJson::from_serializable(&masked_input));
        }
        Ok(rendered_call)
    }

    /// Masks texts that the call's templates derived from secrets, before anything records them.
    fn mask_derived(&mut self, rendered_call: &mut RenderedCall) {
        self.derived_secrets = std::mem::take(&mut rendered_call.secrets);
        self.call_masker = None;
        if !self.derived_secrets.is_empty() {
            let mask_values = || {
                self.context
                    .shared
                    .secret_cache
                    .find_or_create(self.context.execution())
            };
            let secrets = self.context.secrets.get_or_init(mask_values);
            self.call_masker = secrets.add_derived_texts(&self.derived_secrets);
        }
    }

    /// Rejects a template that evaluates to a secret instead of a name. The name is not sent to the server, because the
    /// server records requested names.
    fn check_credential_names(&self, attempt: &TaskAttempt<'_>, names: &BTreeSet<String>) -> Result<(), WorkError> {
        let written = &self.credential_uses(attempt).names;
        let entries = &self.context.prepared_playbook.playbook.keychain;
        let masker = self.context.masker();
        let is_secret = |name: &str| {
            let shows = masker.as_ref().and_then(|masker| masker.mask_text(name));
            shows.is_some() || !credentials::is_credential_name(name)
        };
        let is_known = |name: &str| written.contains(name) || entries.iter().any(|entry| entry.name == *name);
        if names.iter().any(|name| !is_known(name) && is_secret(name)) {
            let message = format!(
                "`auth` of task `{}` does not evaluate to the name of a credential; refer to the keychain entry \
                 itself, not to one of its fields",
                attempt.task.label
            );
            let error = TaskError::permanent(ErrorKind::Auth, "AUTH_UNRESOLVED", message);
            return Err(error.into());
        }
        Ok(())
    }

    /// Masks the input of a task that the worker does not call as a tool: the log of the child execution records it.
    pub(crate) fn mask_rendered_call(&self, rendered_call: &mut RenderedCall) {
        rendered_call.replace_with_masked();
        let Some(masker) = self.context.masker() else {
            return;
        };
        masker.mask_map(&mut rendered_call.fields);
        if let Some(input) = &rendered_call.input {
            let mut input = input.json().clone();
            masker.mask_value(&mut input);
            rendered_call.input = Some(LazyValue::new(input));
        }
    }

    /// Masks the outcome of an attempt before it is stored or evaluated.
    pub(crate) fn mask_outcome(&mut self, outcome: &mut Outcome) {
        let masker = self.context.masker();
        // Other calls may have evicted the derived texts of this call since.
        let call_masker = self.call_masker.take();
        for masker in call_masker.iter().chain(&masker) {
            masker.mask_outcome(outcome);
        }
        let derived = std::mem::take(&mut self.derived_secrets);
        if let Outcome::Error(failure) = outcome {
            SecretMasker::mask_parts_in_failure(&derived, failure);
            strip_userinfo(&mut failure.error);
        }
        let Some(masker) = masker else {
            return;
        };
        // Policy rules and writes also see the input.
        let mut input = self.scope.input.json().clone();
        masker.mask_value(&mut input);
        self.scope.input = LazyValue::new(input);
    }
}
