//! Dates and times of databases as text. Their years go beyond the calendar of `jiff`, which ends at 9999.

use std::fmt;

use jiff::ToSpan as _;
use jiff::civil::{Date, date};

/// Days of 400 years, after which the Gregorian calendar repeats.
const CYCLE_DAYS: i64 = 146_097;
const CYCLE_YEARS: i64 = 400;
const UNIX_EPOCH: Date = date(1970, 1, 1);

/// A date of the proleptic Gregorian calendar; written as `YYYY-MM-DD`, without its era.
pub struct CalendarDate {
    /// Year of its era, from 1.
    year: i64,
    month: i8,
    day: i8,
    /// Whether it is before year 1.
    pub is_bc: bool,
}

impl CalendarDate {
    /// The date a number of days after 1970-01-01.
    pub fn from_unix_days(days: i64) -> Self {
        let date = UNIX_EPOCH.saturating_add(days.rem_euclid(CYCLE_DAYS).days());
        let year = i64::from(date.year()) + days.div_euclid(CYCLE_DAYS) * CYCLE_YEARS;
        let is_bc = year <= 0;
        Self {
            year: if is_bc { 1 - year } else { year },
            month: date.month(),
            day: date.day(),
            is_bc,
        }
    }
}

impl fmt::Display for CalendarDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

/// A time of day as `HH:MM:SS` with a fraction, from units since midnight.
pub fn clock_text(units: i64, per_second: i64) -> String {
    let (seconds, fraction) = (units.div_euclid(per_second), units.rem_euclid(per_second));
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let mut text = format!("{hours:02}:{minutes:02}:{:02}", seconds % 60);
    if fraction > 0 {
        let width = per_second.ilog10() as usize;
        text.push('.');
        text.push_str(format!("{fraction:0width$}").trim_end_matches('0'));
    }
    text
}
