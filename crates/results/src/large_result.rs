//! Stores a large result and returns its reference.

use bytes::Bytes;
use model::event::EventLocation;
use model::id::{ExecutionId, Name};
use model::playbook::ResultControl;
use model::result_ref::{Preview, ResultRef};
use model::time::Time;
use serde_json::{Map, Value};

use crate::extract::{build_preview, extract_fields, listed_keys};
use crate::{BodySource, BodyStore, Error, StorageOptions};

/// Maximum size of a preview if the task sets none.
pub(crate) const PREVIEW_BYTES_MAX: usize = 2048;

/// A result that is too large for the log, as text. Storing it can be repeated after an error.
#[derive(Debug)]
pub struct LargeResult {
    text: Bytes,
    extracted: Map<String, Value>,
    keys: Vec<String>,
    preview: Preview,
    control: ResultControl,
}

/// Origin of a result.
#[derive(Debug, Clone, Copy)]
pub struct ResultOrigin<'a> {
    /// Execution.
    pub execution: ExecutionId,
    /// Step run, iteration, task, visit and attempt.
    pub location: &'a EventLocation,
    /// Current time of the worker, from which a `ttl` counts.
    pub now: Time,
}

impl ResultOrigin<'_> {
    /// Logical address of the result.
    pub fn uri(&self) -> String {
        let attempt = self.location.attempt;
        let step = self.location.step.as_ref().map_or("", Name::as_str);
        let task = self.location.task.as_ref().map_or("", Name::as_str);
        // A result without a task has no task run ID.
        let none = || format!("{}.{}", self.location.run, self.location.visit);
        let run = self.location.task_run_id().unwrap_or_else(none);
        format!(
            "noetl://execution/{}/step/{step}/task/{task}/run/{run}/attempt/{attempt}",
            self.execution
        )
    }
}

impl LargeResult {
    /// Serializes a result and extracts the fields that its task selects.
    pub fn new(result: &Value, control: &ResultControl) -> Result<Self, Error> {
        let text = result.to_string();
        let preview_bytes_max = control.preview_bytes_max.map_or(PREVIEW_BYTES_MAX, saturating_usize);
        let extracted = extract_fields(result, control)?;
        let keys = match result {
            Value::Object(fields) => listed_keys(fields.keys().map(String::as_str), &extracted),
            _ => Vec::new(),
        };
        Ok(Self {
            preview: build_preview(result, text.len(), preview_bytes_max),
            text: Bytes::from(text),
            extracted,
            keys,
            control: control.clone(),
        })
    }

    /// Stores the result; the body is durable when this returns.
    pub async fn store(&self, bodies: &dyn BodyStore, origin: ResultOrigin<'_>) -> Result<ResultRef, Error> {
        let source = BodySource::Bytes(self.text.clone());
        let stored = bodies
            .put_with(source, &StorageOptions::from_control(&self.control))
            .await?;
        Ok(ResultRef {
            expires_at: self.control.ttl.map(|ttl| origin.now.after(ttl)),
            extracted: self.extracted.clone(),
            keys: self.keys.clone(),
            preview: Some(self.preview.clone()),
            ..stored.into_reference(origin.uri(), self.control.scope.unwrap_or_default())
        })
    }
}

pub(crate) fn saturating_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use tempfile::TempDir;

    use super::*;
    use crate::DirBodyStore;

    fn test_location() -> EventLocation {
        EventLocation {
            step: Some("fetch".into()),
            run: 2,
            iteration: Some(7),
            task: Some("page".into()),
            visit: 3,
            attempt: 1,
            page: None,
        }
    }

    #[tokio::test]
    async fn a_large_result_becomes_a_reference_to_a_durable_body() {
        let dir = TempDir::new().unwrap();
        let result = json!({"status": "done", "rows": vec!["row"; 20_000]});
        let control = ResultControl {
            ttl: Some(Duration::from_secs(3)),
            ..ResultControl::default()
        };
        let bodies = DirBodyStore::open(dir.path()).unwrap();
        let location = test_location();
        let origin = ResultOrigin {
            execution: ExecutionId(42),
            location: &location,
            now: Time(1_000_000),
        };
        let large = LargeResult::new(&result, &control).unwrap();
        let reference = large.store(&bodies, origin).await.unwrap();
        let run = "task:fetch.page:run:2.7.3";
        let uri = format!("noetl://execution/42/step/fetch/task/page/run/{run}/attempt/1");
        assert_eq!(reference.uri, uri);
        assert_eq!(reference.expires_at, Some(Time(4_000_000)));
        assert_eq!(reference.extracted["status"], "done");
        assert!(reference.preview.as_ref().unwrap().truncated);
        let body = bodies.get(&reference).await.unwrap();
        assert_eq!(body.len() as u64, reference.meta.bytes);
        assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), result);
    }
}
