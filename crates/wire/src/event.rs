//! An event on the wire: the envelope of `POST /api/events`, with all accepted aliases of its fields.
//!
//! Input: JSON from any client, IDs as integers or decimal strings. Output: the log's own [`Event`]. Workers use the
//! opposite conversion; a round trip changes nothing.

use model::event::{
    AllowedSource, Event, EventBody, EventKind, EventLocation, EventSource, EventStatus, ReportedEvent,
};
use model::id::{EventId, ExecutionId, InvalidIdError, Name, StepRunId, WorkerId};
use model::raw::RawJson;
use model::time::Time;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// An event as a client sends it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WireEvent {
    /// Run ID, an integer or a decimal string. Optional for an event in a batch.
    #[serde(
        default,
        deserialize_with = "some_execution_id",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = String, required = true)]
    pub execution_id: Option<ExecutionId>,
    /// Step name; alias `node_name`. A `:task_sequence` suffix is dropped.
    #[serde(default, alias = "node_name", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub step: Option<Name>,
    /// Event type, by its stored name or an alias; alias `name`.
    #[serde(alias = "name")]
    pub event_type: String,
    /// Payload; alias `context`.
    #[serde(default, alias = "context", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub payload: Option<RawJson>,
    /// Free-form; `command_id` and `lease_epoch` identify the lease of a worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub meta: Option<RawJson>,
    /// Worker that sends the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub worker_id: Option<WorkerId>,
    /// Where the result is. If set, the stored result is `{status, context}` or `{status, reference}`; otherwise the
    /// payload's `result` is the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_kind: Option<ResultKind>,
    /// Address of the result; required if `result_kind` is `ref`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_uri: Option<String>,
    /// Events that contain the results; required if `result_kind` is `refs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    pub event_ids: Option<Vec<EventId>>,
    /// Stored; does not change how the event is processed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actionable: Option<bool>,
    /// Stored; does not change how the event is processed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub informative: Option<bool>,
    /// Event ID, an integer or a decimal string; an event with the same ID is recorded only once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub event_id: Option<EventId>,
    /// Progress of the entity that the event is about. Default: derived from the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<WireStatus>,
    /// Time of the sender's clock; aliases `timestamp` and `ts`.
    #[serde(default, alias = "timestamp", alias = "ts", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub created_at: Option<Time>,
    /// Step run, `step:<name>:run:<n>`. Default: the step run of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_run_id: Option<String>,
    /// Label of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub task_label: Option<Name>,
    /// Task run, `task:<step>.<label>:run:<run>[.<iteration>].<pass>`; `task:<label>:run:<pass>` is also accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_run_id: Option<String>,
    /// Loop index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u64>,
    /// Attempt of the task run, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Page of a paginated result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<i64>,
    /// Duration of the work that the event ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Entity of the event, if `task_label` is not set: the label of a task, or `task:<label>:attempt:<n>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entity_id: Option<String>,
    /// Parent of the entity, if `task_run_id` is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
}

/// The ID may be left out, but it may not be null.
fn some_execution_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ExecutionId>, D::Error> {
    ExecutionId::deserialize(deserializer).map(Some)
}

/// Where the result of an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ResultKind {
    /// In the event.
    Data,
    /// At `result_uri`.
    Ref,
    /// In the events of `event_ids`.
    Refs,
}

/// Progress of an entity, with the aliases that clients use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum WireStatus {
    /// It is running.
    #[serde(
        rename = "in_progress",
        alias = "STARTED",
        alias = "RUNNING",
        alias = "started",
        alias = "running"
    )]
    InProgress,
    /// It succeeded.
    #[serde(alias = "COMPLETED", alias = "completed", alias = "SUCCESS", alias = "ok")]
    Success,
    /// It failed.
    #[serde(alias = "FAILED", alias = "failed", alias = "ERROR")]
    Error,
    /// It was skipped.
    #[serde(alias = "SKIPPED")]
    Skipped,
    /// It waits for a person.
    #[serde(alias = "PAUSED")]
    Paused,
    /// It was cancelled.
    #[serde(alias = "CANCELLED")]
    Cancelled,
}

impl From<WireStatus> for EventStatus {
    fn from(status: WireStatus) -> Self {
        match status {
            WireStatus::InProgress => Self::InProgress,
            WireStatus::Success => Self::Success,
            WireStatus::Error => Self::Error,
            WireStatus::Skipped => Self::Skipped,
            WireStatus::Paused => Self::Paused,
            WireStatus::Cancelled => Self::Cancelled,
        }
    }
}

/// Why an event is invalid.
#[derive(Debug, thiserror::Error)]
pub enum WireEventError {
    /// The event type is unknown.
    #[error("unknown event type `{0}`")]
    UnknownType(String),
    /// The event does not name its execution.
    #[error("`execution_id` is missing")]
    NoExecutionId,
    /// An event of a log has no ID.
    #[error("`event_id` is missing")]
    NoEventId,
    /// An ID in the event is malformed.
    #[error(transparent)]
    InvalidId(#[from] InvalidIdError),
    /// `result_kind` requires another field.
    #[error("`result_kind: {kind}` requires `{needs}`")]
    IncompleteResultKind {
        /// Value of `result_kind`.
        kind: &'static str,
        /// Missing field.
        needs: &'static str,
    },
    /// The payload does not match the event type.
    #[error("cannot parse the payload of `{kind}`: {source}")]
    InvalidPayload {
        /// Event type.
        kind: EventKind,
        /// Parse error.
        #[source]
        source: serde_json::Error,
    },
}

/// Suffix that older engines add to the steps of a pipeline.
const SEQUENCE_SUFFIX: &str = ":task_sequence";

impl WireEvent {
    /// Converts an event of a worker for sending.
    pub fn from_event<Id: Copy + Into<Option<EventId>>>(event: &Event<Id>) -> Self {
        let payload = event.body.payload();
        let is_empty = payload.text() == "{}";
        Self {
            execution_id: Some(event.execution_id),
            step: event.location.step.clone(),
            event_type: event.kind().name().to_owned(),
            payload: (!is_empty).then_some(payload),
            meta: event.meta.clone(),
            worker_id: event.worker_id.clone(),
            result_kind: None,
            result_uri: None,
            event_ids: None,
            actionable: None,
            informative: None,
            event_id: event.event_id.into(),
            status: None,
            created_at: Some(event.timestamp),
            step_run_id: event.location.step_run_id().map(|run| run.to_string()),
            task_label: event.location.task.clone(),
            task_run_id: event.location.task_run_id(),
            iteration: event.location.iteration,
            attempt: (event.location.attempt > 0).then_some(event.location.attempt),
            page: event.location.page,
            duration_ms: event.duration_ms,
            entity_id: None,
            parent_id: None,
        }
    }

    /// Returns the event type; checks that the fields required by `result_kind` are set.
    pub fn kind(&self) -> Result<EventKind, WireEventError> {
        match self.result_kind {
            Some(ResultKind::Ref) if self.result_uri.is_none() => Err(WireEventError::IncompleteResultKind {
                kind: "ref",
                needs: "result_uri",
            }),
            Some(ResultKind::Refs) if self.event_ids.as_ref().is_none_or(Vec::is_empty) => {
                Err(WireEventError::IncompleteResultKind {
                    kind: "refs",
                    needs: "event_ids",
                })
            }
            _ => {
                let kind = self.kind_by_name();
                let kind = kind.ok_or_else(|| WireEventError::UnknownType(self.event_type.clone()))?;
                Ok(match self.status {
                    Some(WireStatus::Error) => kind.to_failed(),
                    _ => kind,
                })
            }
        }
    }

    /// Looks up the type by name. Only the server routes; a `case.*` event with an `action` reports the policy of a
    /// task.
    fn kind_by_name(&self) -> Option<EventKind> {
        let name = self.event_type.as_str();
        let is_case = name.starts_with("case.");
        if is_case && self.has_payload_key("action") {
            return Some(EventKind::PolicyEvaluated);
        }
        let exact = EventKind::from_name(name).filter(|_| !is_case);
        exact.or_else(|| EventKind::from_legacy_name(name))
    }

    fn has_payload_key(&self, key: &str) -> bool {
        let payload = self.payload.as_ref().map(RawJson::to_value);
        payload.is_some_and(|payload| payload.get(key).is_some())
    }

    /// Whether only the server may emit this event.
    pub fn is_server_only(&self) -> bool {
        self.kind()
            .is_ok_and(|kind| kind.allowed_source() == AllowedSource::Server)
    }

    /// Returns the status of the event; if it is not set, derives it from the type.
    pub fn status(&self) -> Option<WireStatus> {
        let status_of_type = || match self.kind().ok()? {
            EventKind::StepStarted
            | EventKind::TaskStarted
            | EventKind::AttemptStarted
            | EventKind::IterationStarted => Some(WireStatus::InProgress),
            EventKind::StepFailed
            | EventKind::TaskFailed
            | EventKind::AttemptFailed
            | EventKind::IterationFailed
            | EventKind::CommandFailed => Some(WireStatus::Error),
            _ => Some(WireStatus::Success),
        };
        self.status.or_else(status_of_type)
    }

    /// Whether the event identifies the pass of its task.
    pub fn has_task_run(&self) -> bool {
        let parent = self.parent_id.as_deref().and_then(ParsedTaskRunId::parse);
        self.task_run_id.is_some() || parent.is_some()
    }

    /// Returns the step without the suffix of older engines.
    pub fn step(&self) -> Option<Name> {
        let step = self.step.as_ref()?.as_str();
        let step = step.strip_suffix(SEQUENCE_SUFFIX).unwrap_or(step);
        (!step.is_empty()).then(|| Name::from(step))
    }

    /// Returns the location of the event in the execution.
    pub fn location(&self) -> Result<EventLocation, WireEventError> {
        let run: Option<StepRunId> = self.step_run_id.as_deref().map(str::parse).transpose()?;
        let step = run.as_ref().map(|run| run.step.clone()).or(self.step());
        let task_run_id = self.task_run_id.as_deref();
        let task_run_id = task_run_id.map(|text| ParsedTaskRunId::parse(text).ok_or_else(|| invalid_task_run_id(text)));
        let task_run_id = task_run_id.transpose()?;
        let parent = || ParsedTaskRunId::parse(self.parent_id.as_deref()?);
        let task_run = task_run_id.or_else(parent);
        let entity = self.task_entity();
        let label = task_run.as_ref().map(|task| task.label_without_step(step.as_ref()));
        let task = self.task_label.clone();
        let task = task.or_else(|| entity.as_ref().map(|entity| entity.label.clone()));
        let task = task.or(label);
        // Visits and attempts count from 1; an event outside a task has neither.
        let first = u32::from(task.is_some());
        let attempt = entity.and_then(|entity| entity.attempt);
        Ok(EventLocation {
            step,
            run: run.map_or(0, |run| run.run),
            iteration: self.iteration,
            visit: task_run.map_or(first, |task| task.visit),
            attempt: self.attempt.or(attempt).unwrap_or(first),
            task,
            page: self.page,
        })
    }

    /// Returns the task that `entity_id` identifies.
    fn task_entity(&self) -> Option<TaskEntity> {
        use model::event::EntityType;
        let text = self.entity_id.as_deref()?;
        let entity = self.kind().ok()?.entity();
        match text.strip_prefix("task:") {
            Some(suffix) => {
                let (label, attempt) = match suffix.split_once(":attempt:") {
                    Some((label, attempt)) => (label, attempt.parse().ok()),
                    None => (suffix, None),
                };
                Some(TaskEntity {
                    label: Name::from(label),
                    attempt,
                })
            }
            None => (entity == EntityType::Task).then(|| TaskEntity {
                label: Name::from(text),
                attempt: None,
            }),
        }
    }

    /// Converts to the log's own form. The server assigns sequence number and recording time.
    pub fn to_event(&self, now: Time) -> Result<ReportedEvent, WireEventError> {
        let kind = self.kind()?;
        let payload = self.payload.as_ref().map_or("{}", RawJson::text);
        let body = EventBody::read(kind, payload).map_err(|source| WireEventError::InvalidPayload { kind, source })?;
        let execution = self.execution_id.ok_or(WireEventError::NoExecutionId)?;
        Ok(ReportedEvent {
            timestamp: self.created_at.unwrap_or(now),
            source: EventSource::Worker,
            duration_ms: self.duration_ms,
            worker_id: self.worker_id.clone(),
            meta: self.stored_meta(),
            ..Event::new(self.event_id, execution, now, self.location()?, body)
        })
    }

    /// Converts an event that a log contains: it has an ID.
    pub fn to_recorded_event(&self, now: Time) -> Result<Event, WireEventError> {
        let id = self.event_id.ok_or(WireEventError::NoEventId)?;
        Ok(self.to_event(now)?.with_id(id))
    }

    /// Returns the meta to store: the original with `actionable` and `informative` added.
    pub fn stored_meta(&self) -> Option<RawJson> {
        let flags = [("actionable", self.actionable), ("informative", self.informative)];
        if flags.iter().all(|(_, flag)| flag.is_none()) {
            return self.meta.clone();
        }
        let mut meta = match self.meta.as_ref().map(RawJson::to_value) {
            Some(Value::Object(meta)) => meta,
            Some(other) => serde_json::Map::from_iter([("meta".to_owned(), other)]),
            None => serde_json::Map::new(),
        };
        for (name, flag) in flags {
            if let Some(flag) = flag {
                meta.insert(name.to_owned(), Value::Bool(flag));
            }
        }
        Some(RawJson::from_serializable(&meta))
    }
}

/// A task in an `entity_id`.
struct TaskEntity {
    label: Name,
    attempt: Option<u32>,
}

/// A parsed task run ID: `task:<step>.<label>:run:<run>[.<iteration>].<pass>`, or `task:<label>:run:<pass>`.
struct ParsedTaskRunId<'a> {
    task: &'a str,
    visit: u32,
}

impl<'a> ParsedTaskRunId<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (task, run) = text.strip_prefix("task:")?.rsplit_once(":run:")?;
        let visit = run.rsplit('.').next()?.parse().ok()?;
        Some(Self { task, visit })
    }

    /// Returns the label without the step prefix of a full ID.
    fn label_without_step(&self, step: Option<&Name>) -> Name {
        let step = step.map_or("", Name::as_str);
        let label = self.task.strip_prefix(step);
        let label = label.and_then(|suffix| suffix.strip_prefix('.'));
        Name::from(label.unwrap_or(self.task))
    }
}

fn invalid_task_run_id(text: &str) -> InvalidIdError {
    InvalidIdError {
        text: text.to_owned(),
        expected: "a task run id",
    }
}

#[cfg(test)]
mod tests;
