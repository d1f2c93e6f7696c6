//! What this worker was given, by execution: used again until it expires, masked as long as the execution may speak.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use model::id::{ExecutionId, Name};
use tokio::time::Instant;
use wire::{Secret, SecretValue};

use crate::secrets::Masks;
use crate::secrets::forms::texts;

/// An execution that was silent for so long is forgotten when another one asks.
const SILENCE_MAX: Duration = Duration::from_secs(6 * 3_600);

/// The secrets of every execution this worker runs.
#[derive(Default)]
pub(crate) struct Secrets {
    /// Whether any was ever given: without one nothing is looked up.
    any: AtomicBool,
    runs: Mutex<HashMap<ExecutionId, Run>>,
}

#[derive(Default)]
struct Run {
    /// By the step that declares it, and its name.
    values: HashMap<(Name, String), (SecretValue, Instant)>,
    texts: BTreeSet<String>,
    masks: Option<Arc<Masks>>,
    heard: Option<Instant>,
}

impl Secrets {
    /// What masks an execution's secrets; none where it has none.
    pub(crate) fn masks(&self, execution: ExecutionId) -> Option<Arc<Masks>> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let mut runs = self.runs();
        let run = runs.get_mut(&execution)?;
        run.heard = Some(Instant::now());
        run.masks.clone()
    }

    /// A value that may still be used.
    pub(super) fn find(
        &self,
        execution: ExecutionId,
        step: &Name,
        name: &str,
    ) -> Option<SecretValue> {
        let mut runs = self.runs();
        let run = runs.get_mut(&execution)?;
        let key = (step.clone(), name.to_owned());
        let (value, until) = run.values.get(&key)?;
        if Instant::now() >= *until {
            run.values.remove(&key);
            return None;
        }
        Some(value.clone())
    }

    /// Keeps what was given, and masks it from now on.
    pub(super) fn keep(&self, execution: ExecutionId, step: &Name, given: &[Secret]) {
        let now = Instant::now();
        let mut runs = self.runs();
        let is_heard = |run: &Run| run.heard.is_none_or(|heard| now - heard < SILENCE_MAX);
        runs.retain(|_, run| is_heard(run));
        let run = runs.entry(execution).or_default();
        run.heard = Some(now);
        let known = run.texts.len();
        for secret in given {
            texts(secret.value.reveal(), &mut run.texts);
            let until = now + secret.valid_for;
            let key = (step.clone(), secret.name.clone());
            run.values.insert(key, (secret.value.clone(), until));
        }
        if run.texts.len() != known {
            run.masks = Masks::of(&run.texts).map(Arc::new);
        }
        self.any.store(true, Ordering::Release);
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<ExecutionId, Run>> {
        self.runs.lock().expect("no holder of the secrets panics")
    }
}
