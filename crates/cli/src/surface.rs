//! What a stream can show: colours, characters beyond ASCII, a width; and the marks drawn with them.

use anstyle::{AnsiColor, Style};
use model::diagnostic;

/// What one stream can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Surface {
    /// Whether colours are wanted.
    pub(crate) color: bool,
    /// Whether it shows more than ASCII.
    pub(crate) unicode: bool,
    /// How wide it is; none where lines may be as long as they like.
    pub(crate) columns: Option<usize>,
    /// Whether the cursor may move.
    pub(crate) live: bool,
}

impl Surface {
    /// A stream that shows text only.
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self {
        color: false,
        unicode: true,
        columns: None,
        live: false,
    };

    fn paint(self, style: Style, text: &str) -> String {
        if self.color {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }

    /// Something went well.
    pub(crate) fn good(self, text: &str) -> String {
        self.paint(AnsiColor::Green.on_default(), text)
    }

    /// Something went wrong.
    pub(crate) fn bad(self, text: &str) -> String {
        self.paint(AnsiColor::Red.on_default().bold(), text)
    }

    /// Something needs attention.
    pub(crate) fn warn(self, text: &str) -> String {
        self.paint(AnsiColor::Yellow.on_default(), text)
    }

    /// Something beside the point.
    pub(crate) fn dim(self, text: &str) -> String {
        self.paint(Style::new().dimmed(), text)
    }

    /// The point.
    pub(crate) fn strong(self, text: &str) -> String {
        self.paint(Style::new().bold(), text)
    }

    /// The first of two texts where it can be shown, else the second.
    pub(crate) fn either(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.unicode { unicode } else { ascii }
    }

    /// Done.
    pub(crate) fn tick(self) -> String {
        self.good(self.either("✓", "ok"))
    }

    /// Failed.
    pub(crate) fn cross(self) -> String {
        self.bad(self.either("✗", "x"))
    }

    /// A bar that is `part` of `whole` full.
    pub(crate) fn bar(self, part: u64, whole: u64, cells: usize) -> String {
        let eighths = cells as u64 * 8;
        let full = (part.min(whole) * eighths)
            .checked_div(whole)
            .unwrap_or(eighths);
        let (cells_full, rest) = (usize::try_from(full / 8).unwrap_or(cells), full % 8);
        if !self.unicode {
            return format!(
                "[{}{}]",
                "#".repeat(cells_full),
                ".".repeat(cells - cells_full)
            );
        }
        let mut bar = "█".repeat(cells_full);
        if cells_full < cells {
            let partial = ["·", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
            bar.push_str(partial[usize::try_from(rest).unwrap_or(0)]);
            bar.push_str(&"·".repeat(cells - cells_full - 1));
        }
        bar
    }

    /// How diagnostics are drawn here.
    pub(crate) fn diagnostics(self) -> diagnostic::Style {
        diagnostic::Style {
            color: self.color,
            unicode: self.unicode,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_the_same_width_however_full_it_is() {
        for part in 0..=100 {
            let bar = Surface::PLAIN.bar(part, 100, 20);
            assert_eq!(bar.chars().count(), 20, "{part}: {bar}");
        }
        assert_eq!(Surface::PLAIN.bar(0, 0, 4), "████");
        assert_eq!(Surface::PLAIN.bar(1, 2, 4), "██··");
    }

    #[test]
    fn without_unicode_every_mark_is_ascii() {
        let ascii = Surface {
            unicode: false,
            ..Surface::PLAIN
        };
        assert!(ascii.bar(3, 10, 10).is_ascii());
        assert!(ascii.tick().is_ascii() && ascii.cross().is_ascii());
    }
}
