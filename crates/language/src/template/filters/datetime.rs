//! Dates and times. A time is RFC 3339 text, so that it can be data; these filters parse and format it.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned, fmt::strtime};
use minijinja::value::Value as Native;
use minijinja::{Environment, Error, ErrorKind};

use crate::template::operators::to_text;
use crate::template::session;

/// Maximum length of a pattern's field without a width.
const FIELD_BYTES_MAX: usize = 64;
/// Number of characters of a text that a message quotes.
const EXCERPT_CHARACTERS_MAX: usize = 120;

pub(crate) fn register(env: &mut Environment<'static>) {
    env.add_function("now", now);
    env.add_filter("to_datetime", to_datetime);
    env.add_filter("strftime", strftime);
}

/// The time of this attempt.
fn now() -> Result<String, Error> {
    let now = session::with_session(|session| session.now);
    now.map(|now| now.to_string())
        .ok_or_else(|| time_error("now() can only be used where a task runs: in its inputs and rules"))
}

/// Parses a time: RFC 3339, a date with or without a time of day, or seconds since 1970.
fn to_datetime(value: &Native, format: Option<&str>) -> Result<String, Error> {
    let zoned = match format {
        None => parse_time(value)?,
        Some(format) => {
            let text = to_text(value)?;
            let parsed = strtime::parse(format, text.as_bytes()).map_err(|error| {
                let (text, format) = (excerpt(&text), excerpt(format));
                time_error(format!("`{text}` does not have the form `{format}`: {error}"))
            })?;
            match parsed.to_zoned() {
                Ok(zoned) => zoned,
                Err(_) => parsed
                    .to_datetime()
                    .or_else(|_| parsed.to_date().map(DateTime::from))
                    .and_then(|time| time.to_zoned(TimeZone::UTC))
                    .map_err(|error| time_error(error.to_string()))?,
            }
        }
    };
    Ok(zoned.timestamp().to_string())
}

/// Formats a time: `{{ now() | strftime('%Y-%m-%d') }}`. The older order, with the pattern as the subject and the time
/// as the argument, also works.
fn strftime(value: &Native, other: &Native) -> Result<String, Error> {
    let (time, pattern) = match value.as_str() {
        Some(text) if text.contains('%') => (other, text),
        _ => (
            value,
            other.as_str().ok_or_else(|| time_error("strftime needs a pattern"))?,
        ),
    };
    super::formatting::check_widths(pattern)?;
    let fields = pattern.matches('%').count();
    session::check_room(pattern.len().saturating_add(fields.saturating_mul(FIELD_BYTES_MAX)))?;
    strtime::format(pattern, &parse_time(time)?).map_err(|error| time_error(error.to_string()))
}

fn parse_time(value: &Native) -> Result<Zoned, Error> {
    let utc = |time: Timestamp| time.to_zoned(TimeZone::UTC);
    if value.is_number() {
        let seconds = f64::try_from(value.clone())?;
        return jiff::SignedDuration::try_from_secs_f64(seconds)
            .and_then(Timestamp::from_duration)
            .map(utc)
            .map_err(|error| time_error(error.to_string()));
    }
    let text = to_text(value)?;
    let text = text.trim();
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(utc(time));
    }
    text.parse::<DateTime>()
        .and_then(|time| time.to_zoned(TimeZone::UTC))
        .map_err(|_| {
            let text = excerpt(text);
            time_error(format!("`{text}` is not a time; write it as RFC 3339 or name its form"))
        })
}

/// Returns the start of a text, for a message.
fn excerpt(text: &str) -> String {
    let mut excerpt: String = text.chars().take(EXCERPT_CHARACTERS_MAX).collect();
    if excerpt.len() < text.len() {
        excerpt.push('…');
    }
    excerpt
}

fn time_error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}
