//! Cache of secrets by execution: values are used until they expire and masked as long as the execution may produce
//! output.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use language::template::MASK;
use model::id::{ExecutionId, Name};
use tokio::time::Instant;
use wire::{ResolvedSecret, SecretValue};

use crate::secrets::SecretMasker;
use crate::secrets::forms::{SECRET_BYTES_MIN, collect_secret_texts};

/// Secrets that no command holds and that were not used for this long are dropped.
const IDLE_MAX: Duration = Duration::from_secs(600);

/// Maximum number of derived texts that are masked in addition to those of the latest call.
const DERIVED_MAX: usize = 128;
/// Maximum number of bytes of these texts.
const DERIVED_BYTES_MAX: usize = 256 * 1024;

/// Secrets of all executions that this worker runs.
#[derive(Default)]
pub(crate) struct SecretCache {
    /// Whether there are any secrets: without them, lookups are skipped.
    has_any: AtomicBool,
    executions: Mutex<HashMap<ExecutionId, Arc<ExecutionSecrets>>>,
}

/// Secrets of one execution. Every running command of the execution holds them.
pub(crate) struct ExecutionSecrets(Mutex<CachedSecrets>);

struct CachedSecrets {
    /// Values by declaring step and name.
    values: HashMap<(Name, String), (SecretValue, Instant)>,
    texts: BTreeSet<String>,
    /// Texts that templates derived from secrets, oldest first.
    derived_texts: VecDeque<String>,
    masker: Option<Arc<SecretMasker>>,
    used_at: Instant,
}

impl SecretCache {
    /// Returns the secrets of an execution, if it has any.
    pub(super) fn find(&self, execution: ExecutionId) -> Option<Arc<ExecutionSecrets>> {
        if !self.has_any.load(Ordering::Acquire) {
            return None;
        }
        self.executions().get(&execution).cloned()
    }

    /// Returns the secrets of an execution; creates an empty entry if there is none.
    pub(super) fn find_or_create(&self, execution: ExecutionId) -> Arc<ExecutionSecrets> {
        let mut executions = self.executions();
        self.has_any.store(true, Ordering::Release);
        let secrets = executions.entry(execution).or_insert_with(|| {
            let cached = CachedSecrets {
                values: HashMap::new(),
                texts: BTreeSet::new(),
                derived_texts: VecDeque::new(),
                masker: None,
                used_at: Instant::now(),
            };
            Arc::new(ExecutionSecrets(Mutex::new(cached)))
        });
        secrets.clone()
    }

    /// Drops secrets that no command holds any more.
    pub(crate) fn remove_idle(&self) {
        if !self.has_any.load(Ordering::Acquire) {
            return;
        }
        let now = Instant::now();
        let mut executions = self.executions();
        executions.retain(|_, secrets| Arc::strong_count(secrets) > 1 || now - secrets.cached().used_at < IDLE_MAX);
        self.has_any.store(!executions.is_empty(), Ordering::Release);
    }

    fn executions(&self) -> MutexGuard<'_, HashMap<ExecutionId, Arc<ExecutionSecrets>>> {
        self.executions.lock().expect("the lock is not poisoned")
    }
}

impl ExecutionSecrets {
    /// Returns the masker for the secrets.
    pub(super) fn masker(&self) -> Option<Arc<SecretMasker>> {
        let mut cached = self.cached();
        cached.used_at = Instant::now();
        cached.masker.clone()
    }

    /// Returns a value that has not expired.
    pub(super) fn find(&self, step: &Name, name: &str) -> Option<SecretValue> {
        let mut cached = self.cached();
        let key = (step.clone(), name.to_owned());
        let (value, expires_at) = cached.values.get(&key)?;
        if Instant::now() >= *expires_at {
            cached.values.remove(&key);
            return None;
        }
        Some(value.clone())
    }

    /// Stores values and masks them from now on.
    pub(super) fn cache_secrets(&self, step: &Name, secrets: &[ResolvedSecret]) {
        let now = Instant::now();
        let mut cached = self.cached();
        cached.used_at = now;
        let before = cached.texts.len();
        for secret in secrets {
            collect_secret_texts(secret.value.reveal(), &mut cached.texts);
            let expires_at = now + secret.valid_for;
            let key = (step.clone(), secret.name.clone());
            cached.values.insert(key, (secret.value.clone(), expires_at));
        }
        if cached.texts.len() != before {
            cached.build_masker();
        }
    }

    /// Also masks texts that the templates of a call derived from secrets. The oldest texts of earlier calls are
    /// evicted. The returned masker covers all texts of this call as long as the caller holds them.
    pub(super) fn add_derived_texts(&self, texts: &[String]) -> Option<Arc<SecretMasker>> {
        let mut cached = self.cached();
        cached.used_at = Instant::now();
        let (mut newest, mut is_changed) = (0, false);
        for text in texts {
            let before = cached.derived_texts.iter().position(|cached| cached == text);
            if let Some(index) = before {
                cached.derived_texts.remove(index);
            } else if cached.is_covered(text) {
                continue;
            } else {
                is_changed = true;
            }
            cached.derived_texts.push_back(text.clone());
            newest += 1;
        }
        if is_changed {
            cached.evict_oldest(newest);
            cached.build_masker();
        }
        cached.masker.clone()
    }

    fn cached(&self) -> MutexGuard<'_, CachedSecrets> {
        self.0.lock().expect("the lock is not poisoned")
    }
}

impl CachedSecrets {
    fn build_masker(&mut self) {
        self.masker = SecretMasker::with_derived(&self.texts, &self.derived_texts).map(Arc::new);
    }

    /// Whether the unmasked parts of a text are too short to be secrets.
    fn is_covered(&self, text: &str) -> bool {
        let masked = self.masker.as_ref().and_then(|masker| masker.mask_text(text));
        let unmasked = masked.as_deref().unwrap_or(text);
        unmasked.split(MASK).all(|part| part.len() < SECRET_BYTES_MIN)
    }

    /// Evicts the oldest texts, but none of the `newest` ones.
    fn evict_oldest(&mut self, newest: usize) {
        let mut bytes: usize = self.derived_texts.iter().map(String::len).sum();
        while self.derived_texts.len() > newest
            && (self.derived_texts.len() > DERIVED_MAX || bytes > DERIVED_BYTES_MAX)
            && let Some(oldest) = self.derived_texts.pop_front()
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
    async fn texts_derived_from_secrets_are_masked_and_bounded() {
        let secrets = SecretCache::default();
        let run = secrets.find_or_create(ExecutionId(1));
        let secret = ResolvedSecret {
            name: "api".to_owned(),
            value: SecretValue::new(json!({"token": "canary-1"})),
            valid_for: Duration::from_secs(60),
        };
        run.cache_secrets(&"s".into(), &[secret]);
        let add = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
            run.add_derived_texts(&texts).unwrap()
        };
        let first = add(&["1-yranac", "true", "17", "n: canary-1"]);
        let masked_text = first.mask_text("1-yranac true 17 n: canary-1");
        assert_eq!(masked_text.as_deref(), Some("*** true 17 n: ***"));
        assert!(Arc::ptr_eq(&first, &add(&["1-yranac", "canary-1"])));
        for n in 0..DERIVED_MAX {
            let text = format!("derived-{n:03}-text");
            let masker = add(&[&text]);
            assert_eq!(masker.mask_text(&text).as_deref(), Some("***"));
        }
        let last = run.masker().unwrap();
        assert_eq!(last.mask_text("1-yranac"), None);
        assert_eq!(last.mask_text("canary-1").as_deref(), Some("***"));
        let huge = "x".repeat(DERIVED_BYTES_MAX * 2);
        assert_eq!(add(&[&huge]).mask_text(&huge).as_deref(), Some("***"));
    }

    #[tokio::test(start_paused = true)]
    async fn secrets_of_a_running_command_stay_masked() {
        let secrets = SecretCache::default();
        let (long, short) = (ExecutionId(1), ExecutionId(2));
        let run_secrets = secrets.find_or_create(long);
        for execution in [long, short] {
            let secret = ResolvedSecret {
                name: "api".to_owned(),
                value: SecretValue::new(json!({"token": "canary-1"})),
                valid_for: Duration::from_secs(60),
            };
            secrets.find_or_create(execution).cache_secrets(&"s".into(), &[secret]);
        }
        tokio::time::advance(IDLE_MAX / 2).await;
        secrets.remove_idle();
        assert!(secrets.find(short).is_some());
        tokio::time::advance(IDLE_MAX * 60).await;
        secrets.remove_idle();
        assert!(secrets.find(short).is_none());
        let masker = secrets.find(long).and_then(|run| run.masker());
        assert!(masker.is_some_and(|masker| masker.mask_text("canary-1").is_some()));
        drop(run_secrets);
        tokio::time::advance(IDLE_MAX).await;
        secrets.remove_idle();
        assert!(secrets.find(long).is_none());
        assert!(!secrets.has_any.load(Ordering::Acquire));
    }
}
