//! What this worker was given, by execution: used again until it expires, masked as long as the execution may speak.

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

/// What no command holds and nobody asked for so long is forgotten.
const SILENCE_MAX: Duration = Duration::from_secs(600);

/// So many texts that came of secrets are searched for beside those of the call that is made next.
const DERIVED_MAX: usize = 128;
/// And so many bytes of them.
const DERIVED_BYTES_MAX: usize = 256 * 1024;

/// The secrets of every execution this worker runs.
#[derive(Default)]
pub(crate) struct Secrets {
    /// Whether any is here: without one nothing is looked up.
    any: AtomicBool,
    runs: Mutex<HashMap<ExecutionId, Arc<RunSecrets>>>,
}

/// The secrets of one execution. Whoever runs one of its commands holds them.
pub(crate) struct RunSecrets(Mutex<Known>);

struct Known {
    /// By the step that declares it, and its name.
    values: HashMap<(Name, String), (SecretValue, Instant)>,
    texts: BTreeSet<String>,
    /// What templates made of secrets, oldest first.
    derived: VecDeque<String>,
    masks: Option<Arc<Masks>>,
    heard: Instant,
}

impl Secrets {
    /// The secrets of an execution; none where it has none.
    pub(super) fn of(&self, execution: ExecutionId) -> Option<Arc<RunSecrets>> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        self.runs().get(&execution).cloned()
    }

    /// The secrets of an execution that is about to be given some.
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

    /// Forgets what nobody holds any more.
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
        self.runs.lock().expect("no holder of the secrets panics")
    }
}

impl RunSecrets {
    /// What masks the secrets.
    pub(super) fn masks(&self) -> Option<Arc<Masks>> {
        let mut known = self.known();
        known.heard = Instant::now();
        known.masks.clone()
    }

    /// A value that may still be used.
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

    /// Keeps what was given, and masks it from now on.
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

    /// Masks what the templates of a call made of secrets too, from now on. The oldest of earlier calls make room; what
    /// comes back masks all of this call's for as long as it is held.
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
        self.0.lock().expect("no holder of the secrets panics")
    }
}

impl Known {
    fn build_masks(&mut self) {
        self.masks = Masks::with_derived(&self.texts, &self.derived).map(Arc::new);
    }

    /// Whether too little of a text is left to be a secret once what is known is masked.
    fn masks_all_of(&self, text: &str) -> bool {
        let masked = self.masks.as_ref().and_then(|masks| masks.text(text));
        let left = masked.as_deref().unwrap_or(text);
        left.split(MASK).all(|part| part.len() < BYTES_MIN)
    }

    /// Forgets the oldest texts, but none of the newest so many.
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
