//! Keeping a result: inline while it is small, else stored first and referenced after.

use bytes::Bytes;
use model::event::At;
use model::id::{ExecutionId, Name};
use model::playbook::ResultControl;
use model::result_ref::{BodyMeta, INLINE_BYTES_MAX, RefKind, ResultRef};
use model::time::Time;
use serde_json::{Map, Value};

use crate::extract::{extract, listed_keys, preview};
use crate::{Bodies, Error, Source, Stored, Wish};

/// The largest preview where the task does not say.
pub(crate) const PREVIEW_BYTES_MAX: usize = 2048;

/// A result that is kept.
#[derive(Debug, Clone, PartialEq)]
pub enum Kept {
    /// In the event itself.
    Inline(Value),
    /// Outside the log.
    Ref(Box<ResultRef>),
}

/// Whose result it is.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The execution.
    pub execution: ExecutionId,
    /// The step run, iteration, task, visit and attempt.
    pub at: &'a At,
    /// The worker's clock, from which a `ttl` counts.
    pub now: Time,
}

/// The deployment's bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The largest body kept inline where the task does not say; a task may only lower it.
    pub inline_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            inline_bytes_max: INLINE_BYTES_MAX,
        }
    }
}

impl Place<'_> {
    /// The logical address of the result.
    pub fn uri(&self) -> String {
        let attempt = self.at.attempt;
        let step = self.at.step.as_ref().map_or("", Name::as_str);
        let task = self.at.task.as_ref().map_or("", Name::as_str);
        // What no task made has no run of one.
        let none = || format!("{}.{}", self.at.run, self.at.visit);
        let run = self.at.task_run_id().unwrap_or_else(none);
        format!(
            "noetl://execution/{}/step/{step}/task/{task}/run/{run}/attempt/{attempt}",
            self.execution
        )
    }
}

/// Keeps a result as its task asks: inline, or durable in `bodies` with a reference to it.
pub async fn keep(
    bodies: &dyn Bodies,
    result: Value,
    control: &ResultControl,
    place: Place<'_>,
    limits: Limits,
) -> Result<Kept, Error> {
    let text = result.to_string();
    let asked = control.inline_bytes_max.map(saturate);
    let inline_bytes_max = asked.map_or(limits.inline_bytes_max, |asked| {
        asked.min(limits.inline_bytes_max)
    });
    if text.len() <= inline_bytes_max {
        return Ok(Kept::Inline(result));
    }
    let preview_bytes_max = control
        .preview_bytes_max
        .map_or(PREVIEW_BYTES_MAX, saturate);
    let extracted = extract(&result, control)?;
    let keys = match &result {
        Value::Object(fields) => listed_keys(fields.keys().map(String::as_str), &extracted),
        _ => Vec::new(),
    };
    let preview = preview(&result, text.len(), preview_bytes_max);
    drop(result);
    let source = Source::Bytes(Bytes::from(text));
    let stored = bodies.put_as(source, &Wish::of(control)).await?;
    let expires_at = control.ttl.map(|ttl| place.now.after(ttl));
    Ok(Kept::Ref(Box::new(ResultRef {
        expires_at,
        extracted,
        keys,
        preview: Some(preview),
        ..reference(stored, place.uri(), control)
    })))
}

/// The reference to a body of JSON text, as yet without what it shows.
pub(crate) fn reference(stored: Stored, uri: String, control: &ResultControl) -> ResultRef {
    ResultRef {
        kind: RefKind::Result,
        uri,
        store: stored.store.to_owned(),
        scope: control.scope.unwrap_or_default(),
        expires_at: None,
        meta: BodyMeta {
            content_type: "application/json".to_owned(),
            bytes: stored.bytes,
            sha256: stored.sha256,
            compression: stored.compression.map(str::to_owned),
            location: stored.location,
        },
        extracted: Map::new(),
        keys: Vec::new(),
        preview: None,
    }
}

pub(crate) fn saturate(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use tempfile::TempDir;

    use super::*;
    use crate::Local;

    fn at() -> At {
        At {
            step: Some("fetch".into()),
            run: 2,
            iteration: Some(7),
            task: Some("page".into()),
            visit: 3,
            attempt: 1,
            page: None,
        }
    }

    async fn kept(result: Value, control: ResultControl, dir: &TempDir) -> Kept {
        let bodies = Local::open(dir.path()).unwrap();
        let at = at();
        let place = Place {
            execution: ExecutionId(42),
            at: &at,
            now: Time(1_000_000),
        };
        let limits = Limits::default();
        keep(&bodies, result, &control, place, limits)
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn a_small_result_stays_inline() {
        let dir = TempDir::new().unwrap();
        let result = json!({"a": 1});
        let kept = kept(result.clone(), ResultControl::default(), &dir).await;
        assert_eq!(kept, Kept::Inline(result));
    }

    #[tokio::test]
    async fn a_large_result_becomes_a_reference_to_a_durable_body() {
        let dir = TempDir::new().unwrap();
        let result = json!({"status": "done", "rows": vec!["row"; 20_000]});
        let control = ResultControl {
            ttl: Some(Duration::from_secs(3)),
            ..ResultControl::default()
        };
        let Kept::Ref(reference) = kept(result.clone(), control, &dir).await else {
            panic!("it is larger than the cap")
        };
        let run = "task:fetch.page:run:2.7.3";
        let uri = format!("noetl://execution/42/step/fetch/task/page/run/{run}/attempt/1");
        assert_eq!(reference.uri, uri);
        assert_eq!(reference.expires_at, Some(Time(4_000_000)));
        assert_eq!(reference.extracted["status"], "done");
        assert!(reference.preview.as_ref().unwrap().truncated);
        let bodies = Local::open(dir.path()).unwrap();
        let body = bodies.get(&reference).await.unwrap();
        assert_eq!(body.len() as u64, reference.meta.bytes);
        assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), result);
    }

    #[tokio::test]
    async fn a_task_may_lower_the_cap_but_not_raise_it() {
        let dir = TempDir::new().unwrap();
        let cap = |bytes| ResultControl {
            inline_bytes_max: Some(bytes),
            ..ResultControl::default()
        };
        let small = json!("0123456789");
        let is_ref = |kept| matches!(kept, Kept::Ref(_));
        assert!(is_ref(kept(small.clone(), cap(11), &dir).await));
        assert!(!is_ref(kept(small, cap(12), &dir).await));
        let large = json!("x".repeat(INLINE_BYTES_MAX));
        assert!(is_ref(kept(large, cap(u64::MAX), &dir).await));
    }
}
