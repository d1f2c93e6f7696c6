//! Parses an event from its API JSON, including its position in the log.

use model::event::{Event, EventSource, default_trace_id};
use model::id::{Name, Seq};
use model::time::Time;
use serde::Deserialize;

use crate::event::{WireEvent, WireEventError};

/// Why JSON is not a valid event.
#[derive(Debug, thiserror::Error)]
pub enum EventJsonError {
    /// Fields are missing or have the wrong type.
    #[error("cannot parse event")]
    Malformed(#[from] serde_json::Error),
    /// The event is invalid.
    #[error(transparent)]
    InvalidEvent(#[from] WireEventError),
}

/// Fields of the log that are not part of `WireEvent`.
#[derive(Deserialize)]
struct LogFields {
    seq: Seq,
    #[serde(default)]
    cause_seq: Option<Seq>,
    recorded_at: Time,
    source: EventSource,
    #[serde(default)]
    trace_id: Option<Name>,
}

/// Parses the output of [`Event::to_json`]; serializing the event again yields the same JSON.
pub fn parse_event_json(text: &str) -> Result<Event, EventJsonError> {
    let log_fields: LogFields = serde_json::from_str(text)?;
    let sent: WireEvent = serde_json::from_str(text)?;
    let mut event = sent.to_recorded_event(log_fields.recorded_at)?;
    event.seq = log_fields.seq;
    event.cause_seq = log_fields.cause_seq;
    event.source = log_fields.source;
    let default = default_trace_id(event.execution_id);
    event.trace_id = log_fields.trace_id.filter(|trace| *trace != default);
    Ok(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn showing_what_was_read_changes_nothing() {
        let text = r#"{"event_id":"7","event_type":"step.scheduled","timestamp":"2026-01-02T03:04:05.000006Z",
            "recorded_at":"2026-01-02T03:04:05.000007Z","execution_id":"5","seq":9,"cause_seq":8,"source":"server",
            "step":"a","step_run_id":"step:a:run:2","iteration":3,"status":"in_progress",
            "payload":{"tokens":[{"seq":4,"arc":0}]}}"#;
        let event = parse_event_json(text).unwrap();
        assert_eq!((event.seq, event.cause_seq), (Seq(9), Some(Seq(8))));
        assert_eq!(event.source, EventSource::Server);
        assert_eq!((event.location.run, event.location.iteration), (2, Some(3)));
        let json = event.to_json();
        let parsed = parse_event_json(&json.to_string()).unwrap();
        assert_eq!(parsed.to_json(), json);
        assert_eq!(parsed, event);
    }

    #[test]
    fn what_is_no_event_is_refused() {
        assert!(matches!(parse_event_json("{}"), Err(EventJsonError::Malformed(_))));
        let unknown = r#"{"event_type":"no.such","execution_id":"5","seq":1,"source":"server",
            "recorded_at":"2026-01-02T03:04:05Z"}"#;
        assert!(matches!(
            parse_event_json(unknown),
            Err(EventJsonError::InvalidEvent(_))
        ));
    }
}
