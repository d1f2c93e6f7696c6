//! Display capabilities of a stream (colors, Unicode, width) and the styles and marks that use them.

use anstyle::{AnsiColor, Style};
use language::diagnostic;

/// Display capabilities of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TerminalStyle {
    /// Whether to use colors.
    pub(crate) has_color: bool,
    /// Whether it can display characters beyond ASCII.
    pub(crate) has_unicode: bool,
    /// Width in columns; `None` if lines have no limit.
    pub(crate) columns: Option<usize>,
    /// Whether the cursor may move.
    pub(crate) is_live: bool,
}

impl TerminalStyle {
    /// Plain Unicode text without colors or width.
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self {
        has_color: false,
        has_unicode: true,
        columns: None,
        is_live: false,
    };

    fn paint(self, style: Style, text: &str) -> String {
        if self.has_color {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }

    /// Styles a success.
    pub(crate) fn good(self, text: &str) -> String {
        self.paint(AnsiColor::Green.on_default(), text)
    }

    /// Styles an error.
    pub(crate) fn bad(self, text: &str) -> String {
        self.paint(AnsiColor::Red.on_default().bold(), text)
    }

    /// Styles a warning.
    pub(crate) fn warn(self, text: &str) -> String {
        self.paint(AnsiColor::Yellow.on_default(), text)
    }

    /// Styles secondary text.
    pub(crate) fn dim(self, text: &str) -> String {
        self.paint(Style::new().dimmed(), text)
    }

    /// Styles important text.
    pub(crate) fn strong(self, text: &str) -> String {
        self.paint(Style::new().bold(), text)
    }

    /// Returns the first text if the stream can display Unicode, else the second.
    pub(crate) fn choose(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.has_unicode { unicode } else { ascii }
    }

    /// Returns the mark for success.
    pub(crate) fn tick(self) -> String {
        self.good(self.choose("✓", "ok"))
    }

    /// Returns the mark for failure.
    pub(crate) fn cross(self) -> String {
        self.bad(self.choose("✗", "x"))
    }

    /// Draws a progress bar, filled to `part` of `total`.
    pub(crate) fn progress_bar(self, part: u64, total: u64, cells: usize) -> String {
        let eighths = cells as u64 * 8;
        let full = (part.min(total) * eighths).checked_div(total).unwrap_or(eighths);
        let (cells_full, remaining_eighths) = (usize::try_from(full / 8).unwrap_or(cells), full % 8);
        if !self.has_unicode {
            return format!("[{}{}]", "#".repeat(cells_full), ".".repeat(cells - cells_full));
        }
        let mut bar = "█".repeat(cells_full);
        if cells_full < cells {
            let partial = ["·", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
            bar.push_str(partial[usize::try_from(remaining_eighths).unwrap_or(0)]);
            bar.push_str(&"·".repeat(cells - cells_full - 1));
        }
        bar
    }

    /// Returns the style for diagnostics on this stream.
    pub(crate) fn diagnostic_style(self) -> diagnostic::DiagnosticStyle {
        diagnostic::DiagnosticStyle {
            color: self.has_color,
            unicode: self.has_unicode,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_the_same_width_however_full_it_is() {
        for part in 0..=100 {
            let bar = TerminalStyle::PLAIN.progress_bar(part, 100, 20);
            assert_eq!(bar.chars().count(), 20, "{part}: {bar}");
        }
        assert_eq!(TerminalStyle::PLAIN.progress_bar(0, 0, 4), "████");
        assert_eq!(TerminalStyle::PLAIN.progress_bar(1, 2, 4), "██··");
    }

    #[test]
    fn without_unicode_every_mark_is_ascii() {
        let ascii = TerminalStyle {
            has_unicode: false,
            ..TerminalStyle::PLAIN
        };
        assert!(ascii.progress_bar(3, 10, 10).is_ascii());
        assert!(ascii.tick().is_ascii() && ascii.cross().is_ascii());
    }
}
