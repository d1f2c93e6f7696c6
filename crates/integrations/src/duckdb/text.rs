//! `DuckDB` values as JSON: numbers if that loses no digits, everything else as text that SQL can read.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Number, Value};
use tools::sql::{CalendarDate, clock_text};

const SECONDS_PER_DAY: i64 = 86_400;
/// Maximum number of digits that a decimal keeps as a double.
const DOUBLE_DIGITS: usize = 15;

/// An integer: a number if JSON parsers preserve it, else text.
pub(super) fn integer(value: i128, is_unsigned: bool) -> Value {
    if is_unsigned {
        // The highest bit is not a sign bit here.
        let value = value.cast_unsigned();
        return u64::try_from(value).map_or_else(|_| value.to_string().into(), Value::from);
    }
    if let Ok(small) = i64::try_from(value) {
        return small.into();
    }
    u64::try_from(value).map_or_else(|_| value.to_string().into(), Value::from)
}

/// A decimal: a number if a double preserves its digits, else text.
pub(super) fn decimal(value: i128, scale: u8) -> Value {
    if scale == 0 {
        return integer(value, false);
    }
    let digits = value.unsigned_abs().to_string();
    let scale = usize::from(scale);
    let padded = format!("{digits:0>width$}", width = scale + 1);
    let (whole, part) = padded.split_at(padded.len() - scale);
    let sign = if value < 0 { "-" } else { "" };
    let text = format!("{sign}{whole}.{part}");
    let number = text.parse::<f64>().ok().and_then(Number::from_f64);
    match number {
        Some(number) if digits.len() <= DOUBLE_DIGITS => Value::Number(number),
        _ => text.into(),
    }
}

/// A double; NaN and infinities become text.
pub(super) fn float(value: f64) -> Value {
    let text = || {
        let sign = if value < 0.0 { "-" } else { "" };
        Value::from(if value.is_nan() {
            "NaN".to_owned()
        } else {
            format!("{sign}Infinity")
        })
    };
    Number::from_f64(value).map_or_else(text, Value::Number)
}

/// A date, from days since 1970.
pub(super) fn date(days: i32) -> String {
    match days {
        i32::MAX => "infinity".to_owned(),
        days if days == -i32::MAX => "-infinity".to_owned(),
        days => {
            let date = CalendarDate::from_unix_days(i64::from(days));
            if date.is_bc {
                return format!("{date} (BC)");
            }
            date.to_string()
        }
    }
}

/// A timestamp, from units since 1970.
pub(super) fn timestamp(units: i64, per_second: i64, has_zone: bool) -> String {
    if units == i64::MAX {
        return "infinity".to_owned();
    }
    if units == -i64::MAX {
        return "-infinity".to_owned();
    }
    let per_day = SECONDS_PER_DAY * per_second;
    let days = i32::try_from(units.div_euclid(per_day)).unwrap_or(i32::MAX);
    let date = date(days);
    let time = clock_text(units.rem_euclid(per_day), per_second);
    let zone = if has_zone { "Z" } else { "" };
    match date.strip_suffix(" (BC)") {
        Some(date) => format!("{date}T{time}{zone} (BC)"),
        None => format!("{date}T{time}{zone}"),
    }
}

/// A time of day with its offset: 40 bits of microseconds, 24 bits of the offset, counted down from the maximum.
pub(super) fn time_with_zone(bits: u64) -> String {
    const OFFSET_MAX: i64 = 16 * 3600 - 1;
    let micros = i64::try_from(bits >> 24).unwrap_or(0);
    let offset = OFFSET_MAX - i64::try_from(bits & 0xff_ffff).unwrap_or(0);
    let sign = if offset < 0 { '-' } else { '+' };
    let offset = offset.abs();
    let (hours, minutes, seconds) = (offset / 3600, offset / 60 % 60, offset % 60);
    let mut text = format!("{}{sign}{hours:02}:{minutes:02}", clock_text(micros, 1_000_000));
    if seconds > 0 {
        text.push_str(&format!(":{seconds:02}"));
    }
    text
}

/// An interval in the format that `DuckDB` and Postgres share.
pub(super) fn interval(months: i32, days: i32, micros: i64) -> String {
    let mut parts = Vec::new();
    let mut count = |number: i32, unit: &str| {
        if number != 0 {
            let plural = if number.abs() == 1 { "" } else { "s" };
            parts.push(format!("{number} {unit}{plural}"));
        }
    };
    count(months / 12, "year");
    count(months % 12, "month");
    count(days, "day");
    if micros != 0 || parts.is_empty() {
        let sign = if micros < 0 { "-" } else { "" };
        parts.push(format!("{sign}{}", clock_text(micros.saturating_abs(), 1_000_000)));
    }
    parts.join(" ")
}

/// A UUID; it is stored with its highest bit inverted, so that it sorts.
pub(super) fn uuid(stored: i128) -> String {
    let hex = format!("{:032x}", stored.cast_unsigned() ^ (1 << 127));
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    parts.join("-")
}

/// The value of a JSON column.
pub(super) fn json(bytes: &[u8]) -> Value {
    let text = || Value::String(String::from_utf8_lossy(bytes).into_owned());
    serde_json::from_slice(bytes).unwrap_or_else(|_| text())
}

/// A blob, as base64.
pub(super) fn blob(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// A bit string: the first byte is the number of padding bits.
pub(super) fn bits(bytes: &[u8]) -> String {
    let Some((padding, bits)) = bytes.split_first() else {
        return String::new();
    };
    let all: Vec<String> = bits.iter().map(|byte| format!("{byte:08b}")).collect();
    all.concat().get(usize::from(*padding)..).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_stay_numbers_while_they_keep_their_digits() {
        assert_eq!(integer(-5, false), json!(-5));
        assert_eq!(integer(i128::from(u64::MAX), false), json!(u64::MAX));
        assert_eq!(integer(i128::MAX, false), json!(i128::MAX.to_string()));
        // The bits of the largest unsigned number.
        assert_eq!(integer(-1, true), json!(u128::MAX.to_string()));
        assert_eq!(decimal(12_345, 2), json!(123.45));
        assert_eq!(decimal(-5, 3), json!(-0.005));
        assert_eq!(decimal(12_345_678_901_234_567_890, 4), json!("1234567890123456.7890"));
        assert_eq!(float(f64::NAN), json!("NaN"));
        assert_eq!(float(f64::NEG_INFINITY), json!("-Infinity"));
    }

    #[test]
    fn dates_and_times_are_written_as_sql_reads_them() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(-1), "1969-12-31");
        assert_eq!(date(19_782), "2024-02-29");
        assert_eq!(date(-719_529), "0002-12-31 (BC)");
        assert_eq!(clock_text(3_723_000_500, 1_000_000), "01:02:03.0005");
        assert_eq!(timestamp(-1, 1_000_000, true), "1969-12-31T23:59:59.999999Z");
        assert_eq!(timestamp(86_400, 1, false), "1970-01-02T00:00:00");
        assert_eq!(timestamp(i64::MAX, 1_000_000, false), "infinity");
        assert_eq!(interval(14, -3, 3_600_000_000), "1 year 2 months -3 days 01:00:00");
        assert_eq!(interval(0, 0, 0), "00:00:00");
    }

    #[test]
    fn bits_and_ids_are_text() {
        assert_eq!(bits(&[3, 0b1111_1010]), "11010");
        assert_eq!(
            uuid(i128::MIN | 0x0123_4567_89ab_cdef),
            "00000000-0000-0000-0123-456789abcdef"
        );
    }
}
