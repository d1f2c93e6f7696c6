//! Cache of secrets by execution: values are used until they expire and masked as long as the execution may produce
//! output.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use model::id::{ExecutionId, Name};
use model::template::MASK;
use tokio::time::Instant;
use wire::{Secret, SecretValue};

use crate::secrets::Masks;
use crate::secrets::forms::{BYTES_MIN, texts};

/// Secrets that no command holds and that were not used for this long are dropped.
const SILENCE_MAX: Duration = Duration::from_secs(600);

/// Maximum number of derived texts that are masked in addition to those of the latest call.
const DERIVED_MAX: usize = 128;
/// Maximum number of bytes of these texts.
const DERIVED_BYTES_MAX: usize = 256 * 1024;

/// Secrets of all executions that this worker runs.
#[derive(Default)]
pub(crate) struct Secrets {
    /// Whether there are any secrets: without them, lookups are skipped.
    any: AtomicBool,
    runs: Mutex<HashMap<ExecutionId, Arc<RunSecrets>>>,
}

/// Secrets of one execution. Every running command of the execution holds them.
pub(crate) struct RunSecrets(Mutex<Known>);

struct Known {
    /// Values by declaring step and name.
    values: HashMap<(Name, String), (SecretValue, Instant)>,
    texts: BTreeSet<String>,
    /// Texts that templates derived from secrets, oldest first.
    derived: VecDeque<String>,
    masks: Option<Arc<Masks>>,
    heard: Instant,
}

impl Secrets {
    /// Returns the secrets of an execution, if it has any.
    pub(super) fn of(&self, execution: ExecutionId) -> Option<Arc<RunSecrets>> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        self.runs().get(&execution).cloned()
    }

    /// Returns the secrets of an execution; creates an empty entry if there is none.
    pub(super) fn hold(&self, execution: ExecutionId) -> Arc<RunSecrets> {
        let mut runs = self.runs();
        self.any.store(true, Ordering::Release);
        let run = runs.entry(execution).or_insert_with(|| {
            let known = Known {
                values: HashMap::new(),
                texts: BTreeSet::new(),
                derived: VecDeque::new(),
                masks: None,
                heard: Instant::now(),
            };
            Arc::new(RunSecrets(Mutex::new(known)))
        });
        run.clone()
    }

    /// Drops secrets that no command holds any more.
    pub(crate) fn sweep(&self) {
        if !self.any.load(Ordering::Acquire) {
            return;
        }
        let now = Instant::now();
        let mut runs = self.runs();
        runs.retain(|_, run| Arc::strong_count(run) > 1 || now - run.known().heard < SILENCE_MAX);
        self.any.store(!runs.is_empty(), Ordering::Release);
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<ExecutionId, Arc<RunSecrets>>> {
        self.runs.lock().expect("the lock is not poisoned")
    }
}

impl RunSecrets {
    /// Returns the masks for the secrets.
    pub(super) fn masks(&self) -> Option<Arc<Masks>> {
        let mut known = self.known();
        known.heard = Instant::now();
        known.masks.clone()
    }

    /// Returns a value that has not expired.
    pub(super) fn find(&self, step: &Name, name: &str) -> Option<SecretValue> {
        let mut known = self.known();
        let key = (step.clone(), name.to_owned());
        let (value, until) = known.values.get(&key)?;
        if Instant::now() >= *until {
            known.values.remove(&key);
            return None;
        }
        Some(value.clone())
    }

    /// Stores values and masks them from now on.
    pub(super) fn keep(&self, step: &Name, given: &[Secret]) {
        let now = Instant::now();
        let mut known = self.known();
        known.heard = now;
        let before = known.texts.len();
        for secret in given {
            texts(secret.value.reveal(), &mut known.texts);
            let until = now + secret.valid_for;
            let key = (step.clone(), secret.name.clone());
            known.values.insert(key, (secret.value.clone(), until));
        }
        if known.texts.len() != before {
            known.build_masks();
        }
    }

    /// Also masks texts that the templates of a call derived from secrets. The oldest texts of earlier calls are
    /// evicted. The returned masks cover all texts of this call as long as the caller holds them.
    pub(super) fn add_derived(&self, found: &[String]) -> Option<Arc<Masks>> {
        let mut known = self.known();
        known.heard = Instant::now();
        let (mut newest, mut is_changed) = (0, false);
        for text in found {
            let before = known.derived.iter().position(|known| known == text);
            if let Some(at) = before {
                known.derived.remove(at);
            } else if known.masks_all_of(text) {
                continue;
            } else {
                is_changed = true;
            }
            known.derived.push_back(text.clone());
            newest += 1;
        }
        if is_changed {
            known.make_room(newest);
            known.build_masks();
        }
        known.masks.clone()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().expect("the lock is not poisoned")
    }
}

impl Known {
    fn build_masks(&mut self) {
        self.masks = Masks::with_derived(&self.texts, &self.derived).map(Arc::new);
    }

    /// Whether the unmasked parts of a text are too short to be secrets.
    fn masks_all_of(&self, text: &str) -> bool {
        let masked = self.masks.as_ref().and_then(|masks| masks.text(text));
        let left = masked.as_deref().unwrap_or(text);
        left.split(MASK).all(|part| part.len() < BYTES_MIN)
    }

    /// Evicts the oldest texts, but none of the `newest` ones.
    fn make_room(&mut self, newest: usize) {
        let mut bytes: usize = self.derived.iter().map(String::len).sum();
        while self.derived.len() > newest
            && (self.derived.len() > DERIVED_MAX || bytes > DERIVED_BYTES_MAX)
            && let Some(oldest) = self.derived.pop_front()
        {
            bytes -= oldest.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn what_templates_make_of_secrets_is_masked_and_bounded() {
        let secrets = Secrets::default();
        let run = secrets.hold(ExecutionId(1));
        let secret = Secret {
            name: "api".to_owned(),
            value: SecretValue::new(json!({"token": "canary-1"})),
            valid_for: Duration::from_secs(60),
        };
        run.keep(&"s".into(), &[secret]);
        let add = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
            run.add_derived(&texts).unwrap()
        };
        let first = add(&["1-yranac", "true", "17", "n: canary-1"]);
        let shown = first.text("1-yranac true 17 n: canary-1");
        assert_eq!(shown.as_deref(), Some("*** true 17 n: ***"));
        assert!(Arc::ptr_eq(&first, &add(&["1-yranac", "canary-1"])));
        for n in 0..DERIVED_MAX {
            let text = format!("derived-{n:03}-text");
            let masks = add(&[&text]);
            assert_eq!(masks.text(&text).as_deref(), Some("***"));
        }
        let last = run.masks().unwrap();
        assert_eq!(last.text("1-yranac"), None);
        assert_eq!(last.text("canary-1").as_deref(), Some("***"));
        let huge = "x".repeat(DERIVED_BYTES_MAX * 2);
        assert_eq!(add(&[&huge]).text(&huge).as_deref(), Some("***"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_command_holds_is_masked_however_long_it_runs() {
        let secrets = Secrets::default();
        let (long, short) = (ExecutionId(1), ExecutionId(2));
        let held = secrets.hold(long);
        for execution in [long, short] {
            let secret = Secret {
                name: "api".to_owned(),
                value: SecretValue::new(json!({"token": "canary-1"})),
                valid_for: Duration::from_secs(60),
            };
            secrets.hold(execution).keep(&"s".into(), &[secret]);
        }
        tokio::time::advance(SILENCE_MAX / 2).await;
        secrets.sweep();
        assert!(secrets.of(short).is_some());
        tokio::time::advance(SILENCE_MAX * 60).await;
        secrets.sweep();
        assert!(secrets.of(short).is_none());
        let masks = secrets.of(long).and_then(|run| run.masks());
        assert!(masks.is_some_and(|masks| masks.text("canary-1").is_some()));
        drop(held);
        tokio::time::advance(SILENCE_MAX).await;
        secrets.sweep();
        assert!(secrets.of(long).is_none());
        assert!(!secrets.any.load(Ordering::Acquire));
    }
}
