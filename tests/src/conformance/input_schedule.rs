//! External inputs of a case: what is sent to the execution, and when.

use std::time::Duration;

use model::event::{EndStatus, Event, EventKind};
use model::id::Name;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::conformance::case::CaseError;

/// An external input to the execution.
#[derive(Debug, Clone)]
pub struct ScheduledInput {
    /// When it is sent.
    pub trigger: Trigger,
    /// What is sent.
    pub input: ExternalInput,
}

/// When an input is sent.
#[derive(Debug, Clone)]
pub enum Trigger {
    /// This time after the start.
    After(Duration),
    /// When the n-th event of this kind, optionally of this step, is in the log.
    OnEvent {
        /// The kind.
        kind: EventKind,
        /// The step.
        step: Option<Name>,
        /// Which of these events, from 1.
        nth: u64,
    },
}

/// Kinds of external inputs.
#[derive(Debug, Clone)]
pub enum ExternalInput {
    /// Cancels the execution. Children that are waited for are cancelled too, or continue.
    Cancel {
        /// Whether the children are cancelled.
        cascade: bool,
    },
    /// Sets the final status.
    Finalize(EndStatus),
    /// Pauses the execution.
    Pause,
    /// Resumes the execution.
    Resume,
    /// Retries the execution, optionally with another version of the playbook.
    Retry(Option<u32>),
    /// Reruns the execution.
    Rerun(RerunInput),
    /// Sends a signal.
    Signal(Name, Option<Value>),
    /// Writes to `ctx`.
    Patch(Value),
    /// The worker with a claim on a command crashes.
    Crash,
}

/// Options of a rerun.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RerunInput {
    /// The first step to run again.
    pub from_step: Option<Name>,
    /// The first iteration to run again.
    pub from_iteration: Option<u64>,
    /// Inputs that replace those of the first run.
    pub payload: Option<Value>,
    /// Another version of the playbook.
    pub version: Option<u32>,
    /// Whether to rerun the latest rerun instead of the root.
    pub latest: bool,
}

/// The remaining inputs of a case, in order.
#[derive(Debug, Clone)]
pub struct InputSchedule(Vec<ScheduledInput>);

impl InputSchedule {
    /// All inputs of a case.
    pub(crate) fn new(inputs: Vec<ScheduledInput>) -> Self {
        Self(inputs)
    }

    /// Removes and returns the first input that is due at this time after the start, given this log.
    pub fn take_due(&mut self, elapsed: Duration, log: &[Event]) -> Option<ExternalInput> {
        let is_due = |happening: &ScheduledInput| match &happening.trigger {
            Trigger::After(span) => elapsed >= *span,
            Trigger::OnEvent { kind, step, nth } => {
                let fits = |event: &&Event| event.kind() == *kind && (step.is_none() || event.location.step == *step);
                log.iter().filter(fits).count() as u64 >= *nth
            }
        };
        let index = self.0.iter().position(is_due)?;
        Some(self.0.remove(index).input)
    }

    /// The times of inputs, from the start.
    pub fn times(&self) -> impl Iterator<Item = Duration> {
        self.0.iter().filter_map(|happening| match happening.trigger {
            Trigger::After(span) => Some(span),
            Trigger::OnEvent { .. } => None,
        })
    }

    /// Whether no input remains.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Parses one entry of a case's `inputs`.
pub(crate) fn parse_input(value: &Value) -> Result<ScheduledInput, CaseError> {
    let invalid = || CaseError::Invalid(format!("`{value}` is not a valid input"));
    let trigger = match (value.get("after"), value.get("at_event").and_then(Value::as_str)) {
        (Some(after), _) => Trigger::After(model::duration::parse(after).ok_or_else(invalid)?),
        (None, Some(event)) => {
            let (kind, step) = match event.split_once(" of ") {
                Some((kind, step)) => (kind, Some(Name::from(step))),
                None => (event, None),
            };
            Trigger::OnEvent {
                kind: EventKind::from_stored_name(kind).ok_or_else(invalid)?,
                step,
                nth: value.get("nth").and_then(Value::as_u64).unwrap_or(1),
            }
        }
        _ => return Err(invalid()),
    };
    let has = |key: &str| value.get(key).is_some();
    let input = match value.get("signal") {
        Some(Value::String(name)) => ExternalInput::Signal(name.as_str().into(), value.get("payload").cloned()),
        _ if has("cancel") => {
            let cascade = value["cancel"].get("cascade").and_then(Value::as_bool);
            ExternalInput::Cancel {
                cascade: cascade.unwrap_or(true),
            }
        }
        _ if has("finalize") => ExternalInput::Finalize(parse_value(&value["finalize"]).ok_or_else(invalid)?),
        _ if has("rerun") => ExternalInput::Rerun(parse_value(&value["rerun"]).ok_or_else(invalid)?),
        _ if has("pause") => ExternalInput::Pause,
        _ if has("resume") => ExternalInput::Resume,
        _ if has("retry") => {
            let version = value["retry"].get("version").and_then(Value::as_u64);
            ExternalInput::Retry(version.and_then(|version| u32::try_from(version).ok()))
        }
        _ if has("crash") => ExternalInput::Crash,
        _ => ExternalInput::Patch(value.get("patch").cloned().ok_or_else(invalid)?),
    };
    Ok(ScheduledInput { trigger, input })
}

fn parse_value<T: DeserializeOwned>(value: &Value) -> Option<T> {
    serde_json::from_value(value.clone()).ok()
}
