//! Replaces credential names by their values just before a tool is called, and masks the values afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::outcome::{ErrorKind, Outcome, TaskError};
use model::playbook::credentials::{self, Opens};
use model::raw::Raw;
use model::template::Data;
use pipeline::TaskRun;
use serde_json::{Map, Value};
use wire::{SecretValue, SecretsAsk};

use crate::hand::{Hand, Trouble};
use crate::load;
use crate::render::Ready;
use crate::run::Pipeline;
use crate::secrets::{Masks, RunSecrets, strip_userinfo};

impl Hand {
    /// Returns the masks for the secrets of the execution; `None` if it has none.
    pub(crate) fn masks(&self) -> Option<Arc<Masks>> {
        self.run_secrets()?.masks()
    }

    /// Returns the secrets of the execution and keeps them until the command ends.
    fn run_secrets(&self) -> Option<&Arc<RunSecrets>> {
        if self.secrets.get().is_none() {
            let found = self.shared.secrets.of(self.execution())?;
            return Some(self.secrets.get_or_init(|| found));
        }
        self.secrets.get()
    }

    /// Resolves names of secrets for the command's step.
    async fn secrets(
        &self,
        names: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, SecretValue>, Trouble> {
        let step = &self.command.run.step;
        let known = self.run_secrets();
        let mut found = BTreeMap::new();
        let mut missing = Vec::new();
        for name in names {
            match known.and_then(|known| known.find(step, name)) {
                Some(value) => {
                    found.insert(name.clone(), value);
                }
                None => missing.push(name.clone()),
            }
        }
        if missing.is_empty() {
            return Ok(found);
        }
        let held = self.lease.held();
        let ask = SecretsAsk {
            worker: self.shared.config.worker.clone(),
            command: held.command,
            lease_epoch: held.lease_epoch,
            names: missing,
        };
        let given = load::patiently(self, || self.shared.transport.secrets(&ask)).await?;
        let fresh = || self.shared.secrets.hold(self.execution());
        self.secrets.get_or_init(fresh).keep(step, &given);
        found.extend(given.into_iter().map(|given| (given.name, given.value)));
        Ok(found)
    }

    /// Returns the keychain entries that a task's templates read.
    async fn keychain(&self, opens: &Opens) -> Result<Data, Trouble> {
        let mut names = opens.keychain.clone();
        if opens.any_entry {
            let entries = self.prepared.playbook.keychain.iter();
            names.extend(entries.map(|entry| entry.name.to_string()));
        }
        let values = self.secrets(&names).await?;
        let map = values.into_iter();
        let map: Map<String, Value> = map
            .map(|(name, value)| (name, value.reveal().clone()))
            .collect();
        Ok(Data::new(Value::Object(map)))
    }
}

impl Pipeline<'_> {
    /// Returns the credentials that the text of the task refers to.
    fn opens(&self, run: &TaskRun<'_>) -> &Opens {
        let index = self.step.task(run.task.label.as_str());
        let (index, _) = index.expect("the task belongs to the step");
        &self.plan.tasks[index].opens
    }

    /// Makes the keychain entries that the call's templates read available to them.
    pub(crate) async fn open_keychain(&mut self, run: &TaskRun<'_>) -> Result<(), Trouble> {
        let opens = self.opens(run);
        if opens.keychain.is_empty() && !opens.any_entry {
            return Ok(());
        }
        let keychain = self.hand.keychain(opens).await?;
        self.scope.keychain = Some(keychain);
        Ok(())
    }

    /// Replaces credential names by credentials, and masks the call as the log shows it.
    pub(crate) async fn open_auth(
        &mut self,
        run: &TaskRun<'_>,
        mut ready: Ready,
    ) -> Result<Ready, Trouble> {
        self.add_derived(&mut ready);
        if !self.opens(run).is_empty() {
            let kind = run.task.kind.as_str();
            let names = credentials::named(kind, &ready.fields);
            if !names.is_empty() {
                self.check_names(run, &names)?;
                let values = self.hand.secrets(&names).await?;
                credentials::open(kind, &mut ready.fields, &mut |name| {
                    values.get(name).map(|value| value.reveal().clone())
                });
            }
        }
        if let (Some(masks), Some(inputs)) = (self.hand.masks(), &ready.inputs) {
            let mut shown = inputs.value();
            masks.value(&mut shown);
            ready.inputs = Some(Raw::of(&shown));
        }
        Ok(ready)
    }

    /// Masks texts that the call's templates derived from secrets, before anything records them.
    fn add_derived(&mut self, ready: &mut Ready) {
        self.derived = std::mem::take(&mut ready.secrets);
        self.call_masks = None;
        if !self.derived.is_empty() {
            let hold = || self.hand.shared.secrets.hold(self.hand.execution());
            let secrets = self.hand.secrets.get_or_init(hold);
            self.call_masks = secrets.add_derived(&self.derived);
        }
    }

    /// Rejects a template that evaluates to a secret instead of a name. The name is not sent to the server, because the
    /// server records requested names.
    fn check_names(&self, run: &TaskRun<'_>, names: &BTreeSet<String>) -> Result<(), Trouble> {
        let written = &self.opens(run).names;
        let entries = &self.hand.prepared.playbook.keychain;
        let masks = self.hand.masks();
        let is_secret = |name: &str| {
            let shows = masks.as_ref().and_then(|masks| masks.text(name));
            shows.is_some() || !credentials::is_name(name)
        };
        let is_known =
            |name: &str| written.contains(name) || entries.iter().any(|entry| entry.name == *name);
        if names.iter().any(|name| !is_known(name) && is_secret(name)) {
            let message = format!(
                "`auth` of task `{}` does not evaluate to the name of a credential; refer to the keychain entry \
                 itself, not to one of its fields",
                run.task.label
            );
            let error = TaskError {
                retryable: false,
                ..TaskError::new(ErrorKind::Auth, "AUTH_UNRESOLVED", message)
            };
            return Err(error.into());
        }
        Ok(())
    }

    /// Masks the input of a task that the worker does not call as a tool: the log of the child execution records it.
    pub(crate) fn mask_ready(&self, ready: &mut Ready) {
        ready.show_only();
        let Some(masks) = self.hand.masks() else {
            return;
        };
        masks.map(&mut ready.fields);
        if let Some(input) = &ready.input {
            let mut input = input.json().clone();
            masks.value(&mut input);
            ready.input = Some(Data::new(input));
        }
    }

    /// Masks the outcome of an attempt before it is stored or evaluated.
    pub(crate) fn mask_outcome(&mut self, outcome: &mut Outcome) {
        let masks = self.hand.masks();
        // Other calls may have evicted the derived texts of this call since.
        let own = self.call_masks.take();
        for masks in own.iter().chain(&masks) {
            masks.outcome(outcome);
        }
        let derived = std::mem::take(&mut self.derived);
        if let Outcome::Error(failure) = outcome {
            Masks::parts_in_failure(&derived, failure);
            strip_userinfo(&mut failure.error);
        }
        let Some(masks) = masks else {
            return;
        };
        // Policy rules and writes also see the input.
        let mut input = self.scope.input.json().clone();
        masks.value(&mut input);
        self.scope.input = Data::new(input);
    }
}
