//! Formats numbers, durations, times and sizes for users.

use model::time::Time;

/// Formats milliseconds as a duration: `44ms`, `8.1s`, `1m 12s`, `2h 05m`, `3d 4h`.
pub(crate) fn format_duration_ms(ms: u64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        _ if ms < 1_000 => format!("{ms}ms"),
        0..60 => format!("{seconds}.{}s", ms % 1_000 / 100),
        60..3_600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h {:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// Formats the time since `then`: `just now`, `2m ago`, `3h ago`, `5d ago`.
pub(crate) fn format_age(then: Time, now: Time) -> String {
    let seconds = now.since(then).as_secs();
    match seconds {
        0..5 => "just now".to_owned(),
        5..60 => format!("{seconds}s ago"),
        60..3_600 => format!("{}m ago", seconds / 60),
        3_600..86_400 => format!("{}h ago", seconds / 3_600),
        _ => format!("{}d ago", seconds / 86_400),
    }
}

/// Formats a count with thousands separators: `10,000`.
pub(crate) fn format_count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a count with its noun: `1 error`, `2 errors`.
pub(crate) fn format_counted(n: usize, noun: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", format_count(n as u64))
}

/// Formats a size: `512 B`, `18 KiB`, `1.1 MiB`.
pub(crate) fn format_size(bytes: u64) -> String {
    const KIB: u64 = 1024;
    const MIB: u64 = 1024 * KIB;
    const GIB: u64 = 1024 * MIB;
    let tenths = |unit: u64| format!("{}.{}", bytes / unit, bytes % unit * 10 / unit);
    match bytes {
        0..KIB => format!("{bytes} B"),
        KIB..MIB => format!("{} KiB", bytes / KIB),
        MIB..GIB => format!("{} MiB", tenths(MIB)),
        _ => format!("{} GiB", tenths(GIB)),
    }
}

/// Formats the local time of day: `12:30:45`.
pub(crate) fn format_time(time: Time) -> String {
    let Ok(instant) = jiff::Timestamp::from_microsecond(time.0) else {
        return time.to_string();
    };
    let zoned = instant.to_zoned(jiff::tz::TimeZone::system());
    let (hour, minute, second) = (zoned.hour(), zoned.minute(), zoned.second());
    format!("{hour:02}:{minute:02}:{second:02}")
}

/// Truncates text to `chars` characters; a truncated text ends with `…`.
pub(crate) fn truncate(text: &str, chars: usize) -> String {
    if text.chars().count() <= chars {
        return text.to_owned();
    }
    let mut out: String = text.chars().take(chars.saturating_sub(1)).collect();
    out.push('…');
    out
}

/// Replaces control characters, which could move the cursor or change colors.
pub(crate) fn escape_controls(text: &str) -> String {
    let escape = |c: char| {
        if c.is_control() && c != '\n' && c != '\t' {
            '.'
        } else {
            c
        }
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_durations_are_printed_with_coarser_units() {
        let formatted = [0, 44, 999, 8_140, 72_000, 7_500_000, 273_600_000].map(format_duration_ms);
        assert_eq!(formatted, ["0ms", "44ms", "999ms", "8.1s", "1m 12s", "2h 05m", "3d 4h"]);
    }

    #[test]
    fn thousands_are_separated() {
        assert_eq!(
            [0, 999, 1_000, 41_207, 1_234_567].map(format_count),
            ["0", "999", "1,000", "41,207", "1,234,567"]
        );
    }

    #[test]
    fn times_are_printed_relative_to_now() {
        let at = |seconds: i64| Time(seconds * 1_000_000);
        assert_eq!(format_age(at(100), at(101)), "just now");
        assert_eq!(format_age(at(0), at(125)), "2m ago");
        assert_eq!(format_age(at(0), at(90_000)), "1d ago");
        assert_eq!(format_age(at(10), at(0)), "just now");
    }

    #[test]
    fn sizes_use_binary_units() {
        assert_eq!(
            [512, 18 * 1024, 1_153_434].map(format_size),
            ["512 B", "18 KiB", "1.1 MiB"]
        );
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(escape_controls("a\u{1b}[31mb\nc"), "a.[31mb\nc");
    }
}
