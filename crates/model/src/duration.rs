//! Durations and sizes as users write them: `30s`, `1h 30m`, `PT1H`, `64KiB`.
//!
//! A plain number is seconds or bytes. Used when a playbook is parsed, and at run time for values from templates.

use std::time::Duration;

use serde_json::Value;

/// The value of `forever`: longer than any run.
pub const FOREVER: Duration = Duration::from_secs(1_000 * 365 * DAY);

const DAY: u64 = 24 * 60 * 60;

/// Parses a duration from a number of seconds or a text.
pub fn parse(value: &Value) -> Option<Duration> {
    match value {
        Value::Number(number) => from_seconds(number.as_f64()?),
        Value::String(text) => parse_text(text),
        _ => None,
    }
}

/// Parses a duration from text: a number of seconds, units, or ISO 8601.
pub fn parse_text(text: &str) -> Option<Duration> {
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    if text == "forever" {
        return Some(FOREVER);
    }
    if let Ok(number) = text.parse::<f64>() {
        return from_seconds(number);
    }
    match text.strip_prefix(['P', 'p']) {
        Some(remaining) => parse_iso(remaining),
        None => parse_units(text, unit_seconds),
    }
}

/// Parses a size in bytes from a number or a text such as `64KiB` or `1MB`.
pub fn parse_size(value: &Value) -> Option<u64> {
    let text = match value {
        Value::Number(number) => return number.as_u64(),
        Value::String(text) => text.trim(),
        _ => return None,
    };
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(split);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "b" => 1,
        "kb" | "k" => 1_000,
        "mb" | "m" => 1_000_000,
        "gb" | "g" => 1_000_000_000,
        "kib" | "ki" => 1 << 10,
        "mib" | "mi" => 1 << 20,
        "gib" | "gi" => 1 << 30,
        _ => return None,
    };
    if let Ok(integer) = number.parse::<u64>() {
        return integer.checked_mul(factor);
    }
    let part = Duration::try_from_secs_f64(number.parse().ok()?).ok()?;
    u64::try_from(part.as_micros() * u128::from(factor) / 1_000_000).ok()
}

fn from_seconds(number: f64) -> Option<Duration> {
    let span = Duration::try_from_secs_f64(number).ok()?;
    (span <= FOREVER).then_some(span)
}

/// Parses a sum of numbers with units: `1h 30m`, `1h30m`, `1.5h`.
fn parse_units(text: &str, unit: fn(&str) -> Option<f64>) -> Option<Duration> {
    let mut remaining = text;
    let mut total = 0.0;
    while !remaining.is_empty() {
        let split = remaining.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = remaining.split_at(split);
        let tail = tail.trim_start();
        let end = tail.find(|c: char| !c.is_alphabetic()).unwrap_or(tail.len());
        let (name, tail) = tail.split_at(end);
        total += number.parse::<f64>().ok()? * unit(name)?;
        remaining = tail.trim_start_matches([' ', ',']);
    }
    from_seconds(total)
}

fn unit_seconds(name: &str) -> Option<f64> {
    Some(match name {
        "us" | "µs" => 0.000_001,
        "ms" | "millis" | "milliseconds" => 0.001,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600.0,
        "d" | "day" | "days" => 86_400.0,
        "w" | "week" | "weeks" => 604_800.0,
        "y" | "year" | "years" => 31_536_000.0,
        _ => return None,
    })
}

/// Parses ISO 8601 after its `P`: days and weeks, then hours, minutes and seconds after `T`. Months and years have no
/// fixed length and are rejected.
fn parse_iso(remaining: &str) -> Option<Duration> {
    let remaining = remaining.to_ascii_uppercase();
    let (date, time) = remaining.split_once('T').unwrap_or((&remaining, ""));
    if date.is_empty() && time.is_empty() {
        return None;
    }
    let days = parse_units(date, |name| match name {
        "D" => Some(86_400.0),
        "W" => Some(604_800.0),
        _ => None,
    })?;
    let clock = parse_units(time, |name| match name {
        "H" => Some(3_600.0),
        "M" => Some(60.0),
        "S" => Some(1.0),
        _ => None,
    })?;
    days.checked_add(clock)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_documented_spelling_is_read() {
        for (text, millis) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("1h 30m", 5_400_000),
            ("1h30m", 5_400_000),
            ("PT1H", 3_600_000),
            ("P1DT12H", 129_600_000),
            ("2d", 172_800_000),
            ("1w", 604_800_000),
            ("1y", 31_536_000_000),
            ("2.5", 2_500),
        ] {
            assert_eq!(parse_text(text), Some(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse(&json!(2.5)), Some(Duration::from_millis(2_500)));
        assert_eq!(parse(&json!("forever")), Some(FOREVER));
    }

    #[test]
    fn nonsense_is_no_duration() {
        for text in [
            "",
            "soon",
            "-1",
            "5 parsecs",
            "s",
            "1h 30",
            "P",
            "P1Y",
            "NaN",
            "inf",
            "1e300",
        ] {
            assert_eq!(parse_text(text), None, "{text}");
        }
        for value in [json!(-1), json!(null), json!([1]), json!(true)] {
            assert_eq!(parse(&value), None, "{value}");
        }
    }

    #[test]
    fn sizes_know_both_kinds_of_kilo() {
        assert_eq!(parse_size(&json!("64KiB")), Some(65_536));
        assert_eq!(parse_size(&json!("1MB")), Some(1_000_000));
        assert_eq!(parse_size(&json!("1.5 MiB")), Some(1_572_864));
        assert_eq!(parse_size(&json!(4096)), Some(4_096));
        for value in [json!("big"), json!(-1), json!("MB"), json!("99999999999GB")] {
            assert_eq!(parse_size(&value), None, "{value}");
        }
    }
}
