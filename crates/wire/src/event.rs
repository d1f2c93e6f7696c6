//! An event as it crosses the wire: the envelope of `POST /api/events`, with every name it was ever given.
//!
//! Enters: JSON from any client, ids as integers or decimal strings. Leaves: the log's own [`Event`]. The way back is
//! used by our own workers; both ways together change nothing.

use model::event::{At, Body, Emitter, Event, Kind, Source, Status};
use model::id::{EventId, ExecutionId, InvalidId, Name, Seq, StepRunId, WorkerId};
use model::raw::Raw;
use model::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// An event as a client sends it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WireEvent {
    /// The execution; an integer or a decimal string.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// The step; also called `node_name`. A `:task_sequence` suffix is dropped.
    #[serde(default, alias = "node_name", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub step: Option<Name>,
    /// What happened, by its stored name or an alias; also called `name`.
    #[serde(alias = "name")]
    pub event_type: String,
    /// What the event says; also called `context`.
    #[serde(default, alias = "context", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub payload: Option<Raw>,
    /// Free-form; `command_id` and `lease_epoch` say under which claim a worker speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub meta: Option<Raw>,
    /// Who sends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub worker_id: Option<WorkerId>,
    /// Where the result is.
    #[serde(default, skip_serializing_if = "ResultKind::is_data")]
    pub result_kind: ResultKind,
    /// The result's address; needed where `result_kind` is `ref`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_uri: Option<String>,
    /// The events that hold the results; needed where `result_kind` is `refs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    pub event_ids: Option<Vec<EventId>>,
    /// Kept; a lifecycle event is decided whatever this says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actionable: Option<bool>,
    /// Kept; a lifecycle event is decided whatever this says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub informative: Option<bool>,
    /// What makes it the same event when it is sent again; an integer or a decimal string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub event_id: Option<EventId>,
    /// How far the thing it speaks of has come; follows from the type where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<WireStatus>,
    /// The sender's clock; also called `timestamp` and `ts`.
    #[serde(
        default,
        alias = "timestamp",
        alias = "ts",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub created_at: Option<Time>,
    /// The step run, `step:<name>:run:<n>`; the one of the command where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_run_id: Option<String>,
    /// The task's label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub task_label: Option<Name>,
    /// The task run, `task:<label>:run:<n>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_run_id: Option<String>,
    /// The loop index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u64>,
    /// Counts the tries of the task run from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The page of a paginated result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<i64>,
    /// How long the thing it ends took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// Where an event's result is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ResultKind {
    /// In the event.
    #[default]
    Data,
    /// At `result_uri`.
    Ref,
    /// In the events of `event_ids`.
    Refs,
}

impl ResultKind {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
    fn is_data(&self) -> bool {
        *self == Self::Data
    }
}

/// How far a thing has come, in the words of every client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum WireStatus {
    /// It goes on.
    #[serde(
        rename = "in_progress",
        alias = "STARTED",
        alias = "RUNNING",
        alias = "started",
        alias = "running"
    )]
    InProgress,
    /// It ended well.
    #[serde(
        alias = "COMPLETED",
        alias = "completed",
        alias = "SUCCESS",
        alias = "ok"
    )]
    Success,
    /// It failed.
    #[serde(alias = "FAILED", alias = "failed", alias = "ERROR")]
    Error,
    /// It was left out.
    #[serde(alias = "SKIPPED")]
    Skipped,
    /// It waits for a person.
    #[serde(alias = "PAUSED")]
    Paused,
    /// It was stopped.
    #[serde(alias = "CANCELLED")]
    Cancelled,
}

impl From<WireStatus> for Status {
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

/// Why an event cannot be understood.
#[derive(Debug, thiserror::Error)]
pub enum InvalidEvent {
    /// No event has this name.
    #[error("no event is called `{0}`")]
    UnknownType(String),
    /// An id inside it is malformed.
    #[error(transparent)]
    Id(#[from] InvalidId),
    /// `result_kind` needs another field.
    #[error("`result_kind: {kind}` needs `{needs}`")]
    ResultKind {
        /// What was said.
        kind: &'static str,
        /// What is missing.
        needs: &'static str,
    },
    /// The payload is not that of its type.
    #[error("the payload of `{kind}` cannot be read: {source}")]
    Payload {
        /// The type.
        kind: Kind,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
}

/// The suffix that older engines give the steps of a pipeline.
const SEQUENCE_SUFFIX: &str = ":task_sequence";

impl WireEvent {
    /// An event of this worker's, as it is sent.
    pub fn of(event: &Event) -> Self {
        let payload = event.body.payload();
        let is_empty = payload.text() == "{}";
        Self {
            execution_id: event.execution_id,
            step: event.at.step.clone(),
            event_type: event.kind().name().to_owned(),
            payload: (!is_empty).then_some(payload),
            meta: event.meta.clone(),
            worker_id: event.worker_id.clone(),
            result_kind: ResultKind::Data,
            result_uri: None,
            event_ids: None,
            actionable: None,
            informative: None,
            event_id: (event.event_id != EventId(0)).then_some(event.event_id),
            status: None,
            created_at: Some(event.timestamp),
            step_run_id: event.at.step_run_id().map(|run| run.to_string()),
            task_label: event.at.task.clone(),
            task_run_id: event.at.task_run_id(),
            iteration: event.at.iteration,
            attempt: (event.at.attempt > 0).then_some(event.at.attempt),
            page: event.at.page,
            duration_ms: event.duration_ms,
        }
    }

    /// What happened, and whether the result is where it is said to be.
    pub fn kind(&self) -> Result<Kind, InvalidEvent> {
        match self.result_kind {
            ResultKind::Ref if self.result_uri.is_none() => Err(InvalidEvent::ResultKind {
                kind: "ref",
                needs: "result_uri",
            }),
            ResultKind::Refs if self.event_ids.as_ref().is_none_or(Vec::is_empty) => {
                Err(InvalidEvent::ResultKind {
                    kind: "refs",
                    needs: "event_ids",
                })
            }
            _ => Kind::named(&self.event_type)
                .ok_or_else(|| InvalidEvent::UnknownType(self.event_type.clone())),
        }
    }

    /// Whether only the control plane may say this.
    pub fn is_the_servers(&self) -> bool {
        Kind::named(&self.event_type).is_some_and(|kind| kind.emitter() == Emitter::Server)
    }

    /// The step, without the suffix of older engines.
    pub fn step(&self) -> Option<Name> {
        let step = self.step.as_ref()?.as_str();
        let step = step.strip_suffix(SEQUENCE_SUFFIX).unwrap_or(step);
        (!step.is_empty()).then(|| Name::from(step))
    }

    /// Where it happened.
    pub fn at(&self) -> Result<At, InvalidEvent> {
        let run: Option<StepRunId> = self.step_run_id.as_deref().map(str::parse).transpose()?;
        let visit = self.task_run_id.as_deref().map(visit).transpose()?;
        let task = self.task_label.clone();
        let in_task = u32::from(task.is_some());
        Ok(At {
            step: run.as_ref().map(|run| run.step.clone()).or(self.step()),
            run: run.map_or(0, |run| run.run),
            iteration: self.iteration,
            visit: visit.unwrap_or(in_task),
            attempt: self.attempt.unwrap_or(in_task),
            task,
            page: self.page,
        })
    }

    /// The log's own form. Seq and times of the store are not its sender's to give.
    pub fn event(&self, now: Time) -> Result<Event, InvalidEvent> {
        let kind = self.kind()?;
        let payload = self.payload.as_ref().map_or("{}", Raw::text);
        let body =
            Body::read(kind, payload).map_err(|source| InvalidEvent::Payload { kind, source })?;
        Ok(Event {
            event_id: self.event_id.unwrap_or(EventId(0)),
            execution_id: self.execution_id,
            seq: Seq(0),
            cause_seq: None,
            timestamp: self.created_at.unwrap_or(now),
            recorded_at: now,
            source: Source::Worker,
            at: self.at()?,
            duration_ms: self.duration_ms,
            worker_id: self.worker_id.clone(),
            meta: self.kept_meta(),
            body,
        })
    }

    /// The meta that is kept: as it came, with the flags that do not change what is decided.
    pub fn kept_meta(&self) -> Option<Raw> {
        let flags = [
            ("actionable", self.actionable),
            ("informative", self.informative),
        ];
        if flags.iter().all(|(_, flag)| flag.is_none()) {
            return self.meta.clone();
        }
        let mut meta = match self.meta.as_ref().map(Raw::value) {
            Some(Value::Object(meta)) => meta,
            Some(other) => serde_json::Map::from_iter([("meta".to_owned(), other)]),
            None => serde_json::Map::new(),
        };
        for (name, flag) in flags {
            if let Some(flag) = flag {
                meta.insert(name.to_owned(), Value::Bool(flag));
            }
        }
        Some(Raw::of(&meta))
    }
}

/// The visit in `task:<label>:run:<n>`.
fn visit(text: &str) -> Result<u32, InvalidId> {
    let visit = text
        .strip_prefix("task:")
        .and_then(|named| named.rsplit_once(":run:"))
        .and_then(|(_, visit)| visit.parse().ok());
    visit.ok_or_else(|| InvalidId {
        text: text.to_owned(),
        expected: "a task run id",
    })
}

#[cfg(test)]
mod tests;
