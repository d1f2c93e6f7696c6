//! Dates, times and intervals.

use super::reader::{ByteReader, MalformedValue};
use crate::sql::{CalendarDate, clock_text};

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;
/// Days from `1970-01-01` to `2000-01-01`, the server's epoch.
const EPOCH: i64 = 10_957;

/// Separator between date and time: `T` in ISO format, a space in the server's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimestampStyle {
    Iso,
    Server,
}

pub(super) fn date(raw: &[u8]) -> Result<String, MalformedValue> {
    match ByteReader(raw).i32()? {
        i32::MAX => Ok("infinity".to_owned()),
        i32::MIN => Ok("-infinity".to_owned()),
        days => {
            let (text, era) = day_text(i64::from(days));
            Ok(text + era)
        }
    }
}

/// A timestamp; `zone` is appended to the time.
pub(super) fn timestamp(raw: &[u8], zone: &str, style: TimestampStyle) -> Result<String, MalformedValue> {
    match ByteReader(raw).i64()? {
        i64::MAX => Ok("infinity".to_owned()),
        i64::MIN => Ok("-infinity".to_owned()),
        micros => {
            let (text, era) = day_text(micros.div_euclid(DAY));
            let between = if style == TimestampStyle::Iso { 'T' } else { ' ' };
            let time = clock_text(micros.rem_euclid(DAY), SECOND);
            Ok(format!("{text}{between}{time}{zone}{era}"))
        }
    }
}

pub(super) fn time(raw: &[u8]) -> Result<String, MalformedValue> {
    Ok(clock_text(ByteReader(raw).i64()?, SECOND))
}

pub(super) fn time_with_zone(raw: &[u8]) -> Result<String, MalformedValue> {
    let mut reader = ByteReader(raw);
    let time = clock_text(reader.i64()?, SECOND);
    // Seconds west of UTC.
    let west = reader.i32()?;
    let sign = if west > 0 { '-' } else { '+' };
    let offset = west.unsigned_abs();
    let (hours, minutes, seconds) = (offset / 3600, offset / 60 % 60, offset % 60);
    let mut zone = format!("{sign}{hours:02}");
    if minutes > 0 || seconds > 0 {
        zone.push_str(&format!(":{minutes:02}"));
    }
    if seconds > 0 {
        zone.push_str(&format!(":{seconds:02}"));
    }
    Ok(time + zone.as_str())
}

/// An interval in the server's text format: `1 year 2 mons 3 days 04:05:06`.
pub(super) fn interval(raw: &[u8]) -> Result<String, MalformedValue> {
    let mut reader = ByteReader(raw);
    let (micros, days, months) = (reader.i64()?, reader.i32()?, reader.i32()?);
    match (micros, days, months) {
        (i64::MAX, i32::MAX, i32::MAX) => return Ok("infinity".to_owned()),
        (i64::MIN, i32::MIN, i32::MIN) => return Ok("-infinity".to_owned()),
        _ => {}
    }
    let mut parts = Vec::new();
    let mut is_before = false;
    for (value, unit) in [(months / 12, "year"), (months % 12, "mon"), (days, "day")] {
        if value != 0 {
            let sign = if is_before && value > 0 { "+" } else { "" };
            let plural = if value == 1 { "" } else { "s" };
            parts.push(format!("{sign}{value} {unit}{plural}"));
            is_before = value < 0;
        }
    }
    if micros != 0 || parts.is_empty() {
        let sign = match micros {
            ..0 => "-",
            _ if is_before => "+",
            _ => "",
        };
        let size = i64::try_from(micros.unsigned_abs()).map_err(|_| MalformedValue)?;
        parts.push(format!("{sign}{}", clock_text(size, SECOND)));
    }
    Ok(parts.join(" "))
}

/// Formats days since `2000-01-01`; the suffix is ` BC` before year 1.
fn day_text(days: i64) -> (String, &'static str) {
    let date = CalendarDate::from_unix_days(days + EPOCH);
    (date.to_string(), if date.is_bc { " BC" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_over_leap_years_and_eras() {
        let of = |days: i32| date(&days.to_be_bytes()).unwrap();
        assert_eq!(of(0), "2000-01-01");
        assert_eq!(of(59), "2000-02-29");
        assert_eq!(of(-1), "1999-12-31");
        assert_eq!(of(8_766), "2024-01-01");
        assert_eq!(of(i32::MAX), "infinity");
    }

    #[test]
    fn timestamps_before_the_epoch_keep_their_fraction() {
        let of = |micros: i64| timestamp(&micros.to_be_bytes(), "", TimestampStyle::Iso).unwrap();
        assert_eq!(of(-1), "1999-12-31T23:59:59.999999");
        assert_eq!(of(1_500_000), "2000-01-01T00:00:01.5");
    }

    #[test]
    fn intervals_are_written_with_their_signs() {
        let of = |micros: i64, days: i32, months: i32| {
            let mut raw = micros.to_be_bytes().to_vec();
            raw.extend(days.to_be_bytes());
            raw.extend(months.to_be_bytes());
            interval(&raw).unwrap()
        };
        assert_eq!(of(0, 0, 0), "00:00:00");
        assert_eq!(of(3_661 * SECOND, 3, 14), "1 year 2 mons 3 days 01:01:01");
        assert_eq!(of(SECOND, 2, -1), "-1 mons +2 days 00:00:01");
        assert_eq!(of(-SECOND / 2, 1, 0), "1 day -00:00:00.5");
    }
}
