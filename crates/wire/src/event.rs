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
    /// The execution; an integer or a decimal string. An event of a batch may leave it out.
    #[serde(default = "unnamed_execution")]
    #[schema(value_type = String, required = true)]
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
    /// Where the result is. Said, the stored result is `{status, context}` or `{status, reference}`; left out, the
    /// payload's `result` is the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_kind: Option<ResultKind>,
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
    /// The task run, `task:<step>.<label>:run:<run>[.<iteration>].<pass>`; `task:<label>:run:<pass>` is accepted too.
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
    /// What the event is about, where `task_label` is left out: a task's label, or `task:<label>:attempt:<n>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entity_id: Option<String>,
    /// What that is nested in, where `task_run_id` is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
}

/// Stands for the execution of an event that names none; no execution has this id.
const UNNAMED: ExecutionId = ExecutionId(0);

fn unnamed_execution() -> ExecutionId {
    UNNAMED
}

/// Where an event's result is.
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
            result_kind: None,
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
            entity_id: None,
            parent_id: None,
        }
    }

    /// What happened, and whether the result is where it is said to be.
    pub fn kind(&self) -> Result<Kind, InvalidEvent> {
        match self.result_kind {
            Some(ResultKind::Ref) if self.result_uri.is_none() => Err(InvalidEvent::ResultKind {
                kind: "ref",
                needs: "result_uri",
            }),
            Some(ResultKind::Refs) if self.event_ids.as_ref().is_none_or(Vec::is_empty) => {
                Err(InvalidEvent::ResultKind {
                    kind: "refs",
                    needs: "event_ids",
                })
            }
            _ => {
                let kind = self.named_kind();
                let kind =
                    kind.ok_or_else(|| InvalidEvent::UnknownType(self.event_type.clone()))?;
                Ok(match self.status {
                    Some(WireStatus::Error) => kind.failed(),
                    _ => kind,
                })
            }
        }
    }

    /// The kind of the name. Routing is the server's; a `case.*` event with an `action` reports a task's policy.
    fn named_kind(&self) -> Option<Kind> {
        let name = self.event_type.as_str();
        let is_case = name.starts_with("case.");
        if is_case && self.payload_has("action") {
            return Some(Kind::PolicyEvaluated);
        }
        let exact = Kind::named(name).filter(|_| !is_case);
        exact.or_else(|| Kind::of_family(name))
    }

    fn payload_has(&self, key: &str) -> bool {
        let payload = self.payload.as_ref().map(Raw::value);
        payload.is_some_and(|payload| payload.get(key).is_some())
    }

    /// Whether only the control plane may say this.
    pub fn is_the_servers(&self) -> bool {
        self.kind()
            .is_ok_and(|kind| kind.emitter() == Emitter::Server)
    }

    /// How far the thing it speaks of has come: as it says, or as its type does.
    pub fn status(&self) -> Option<WireStatus> {
        let usual = || match self.kind().ok()? {
            Kind::StepStarted
            | Kind::TaskStarted
            | Kind::AttemptStarted
            | Kind::IterationStarted => Some(WireStatus::InProgress),
            Kind::StepFailed
            | Kind::TaskFailed
            | Kind::AttemptFailed
            | Kind::IterationFailed
            | Kind::CommandFailed => Some(WireStatus::Error),
            _ => Some(WireStatus::Success),
        };
        self.status.or_else(usual)
    }

    /// Whether it says which pass of its task it speaks of.
    pub fn names_task_run(&self) -> bool {
        let parent = self.parent_id.as_deref().and_then(TaskRun::parse);
        self.task_run_id.is_some() || parent.is_some()
    }

    /// Whether it names the execution it belongs to.
    pub fn names_execution(&self) -> bool {
        self.execution_id != UNNAMED
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
        let step = run.as_ref().map(|run| run.step.clone()).or(self.step());
        let named = self.task_run_id.as_deref();
        let named = named.map(|text| TaskRun::parse(text).ok_or_else(|| not_a_task_run(text)));
        let named = named.transpose()?;
        let parent = || TaskRun::parse(self.parent_id.as_deref()?);
        let task_run = named.or_else(parent);
        let entity = self.entity();
        let label = task_run.as_ref().map(|task| task.label_in(step.as_ref()));
        let task = self.task_label.clone();
        let task = task.or_else(|| entity.as_ref().map(|entity| entity.label.clone()));
        let task = task.or(label);
        let in_task = u32::from(task.is_some());
        let attempt = entity.and_then(|entity| entity.attempt);
        Ok(At {
            step,
            run: run.map_or(0, |run| run.run),
            iteration: self.iteration,
            visit: task_run.map_or(in_task, |task| task.visit),
            attempt: self.attempt.or(attempt).unwrap_or(in_task),
            task,
            page: self.page,
        })
    }

    /// The task that `entity_id` names, in an event about a task or its result.
    fn entity(&self) -> Option<TaskEntity> {
        use model::event::EntityType;
        let text = self.entity_id.as_deref()?;
        let entity = self.kind().ok()?.entity();
        match text.strip_prefix("task:") {
            Some(rest) => {
                let (label, attempt) = match rest.split_once(":attempt:") {
                    Some((label, attempt)) => (label, attempt.parse().ok()),
                    None => (rest, None),
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
            trace_id: None,
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

/// A task as an `entity_id` names it.
struct TaskEntity {
    label: Name,
    attempt: Option<u32>,
}

/// A task run as its id names it: `task:<step>.<label>:run:<run>[.<iteration>].<pass>`, or `task:<label>:run:<pass>`.
struct TaskRun<'a> {
    task: &'a str,
    visit: u32,
}

impl<'a> TaskRun<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (task, run) = text.strip_prefix("task:")?.rsplit_once(":run:")?;
        let visit = run.rsplit('.').next()?.parse().ok()?;
        Some(Self { task, visit })
    }

    /// The label, without the step that a whole id has before it.
    fn label_in(&self, step: Option<&Name>) -> Name {
        let step = step.map_or("", Name::as_str);
        let label = self.task.strip_prefix(step);
        let label = label.and_then(|rest| rest.strip_prefix('.'));
        Name::from(label.unwrap_or(self.task))
    }
}

fn not_a_task_run(text: &str) -> InvalidId {
    InvalidId {
        text: text.to_owned(),
        expected: "a task run id",
    }
}

#[cfg(test)]
mod tests;
