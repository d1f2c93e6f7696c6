//! Durations as playbooks write them (filled by the language work).
use serde_json::Value;
use std::time::Duration;
/// Reads seconds or duration text.
pub fn parse(value: &Value) -> Option<Duration> {
    value
        .as_f64()
        .and_then(|s| Duration::try_from_secs_f64(s).ok())
}
