//! Renders a diagnostic for a terminal: message, position, source line with an underline, help.

use std::fmt::Write;

use crate::diagnostic::{Diagnostic, Severity};

/// The capabilities of the terminal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiagnosticStyle {
    /// Whether to use colors.
    pub color: bool,
    /// Whether the terminal shows Unicode characters.
    pub unicode: bool,
}

/// Longer lines are cut around the underlined part.
const LINE_CHARS_MAX: usize = 160;

impl Diagnostic {
    /// Returns the rendered text, ending in a newline.
    pub fn render(&self, style: DiagnosticStyle) -> String {
        let colors = TerminalColors::new(self.severity, style);
        let (corner, bar) = if style.unicode { ("┌─", "│") } else { ("-->", "|") };
        let number = self.span.line.to_string();
        let gutter = " ".repeat(number.len());
        let label = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        let mut out = String::new();
        let head = colors.color_message(&format!("{label}[{}]", self.code));
        let position = format!("{}:{}:{}", self.source.name, self.span.line, self.span.column);
        let corner = colors.color_frame(corner);
        let _ = writeln!(out, "{head}: {}", self.message);
        let _ = writeln!(out, "{gutter} {corner} {position}");
        if let Some(snippet) = self.snippet() {
            let bar = colors.color_frame(bar);
            let mark = colors.color_message(&format!("{} {}", "^".repeat(snippet.width), self.label));
            let pad = &snippet.pad;
            let _ = writeln!(out, "{} {bar} {}", colors.color_frame(&number), snippet.line);
            let _ = writeln!(out, "{gutter} {bar} {pad}{}", mark.trim_end());
        }
        for help in &self.help {
            let _ = writeln!(out, "{gutter} {} help: {help}", colors.color_frame("="));
        }
        out
    }

    fn snippet(&self) -> Option<Snippet> {
        if self.label.is_empty() {
            return None;
        }
        let index = usize::try_from(self.span.line).ok()?.checked_sub(1)?;
        let line = self.source.text.lines().nth(index)?;
        let column = usize::try_from(self.span.column).ok()?.checked_sub(1)?;
        Some(Snippet::from_line(line, column, self.chars_in_line(line, column)))
    }

    /// Returns the number of characters of the span on its first line.
    fn chars_in_line(&self, line: &str, column: usize) -> usize {
        let (start, end) = (self.span.start as usize, self.span.end as usize);
        let text = self.source.text.get(start..end).unwrap_or("");
        let first_line = text.lines().next().unwrap_or("").trim_end();
        let columns_left = line.chars().count().saturating_sub(column);
        first_line.chars().count().min(columns_left).max(1)
    }
}

struct Snippet {
    line: String,
    pad: String,
    width: usize,
}

impl Snippet {
    /// Replaces tabs by a space and control characters by a dot, so that columns line up and no escape sequence reaches
    /// the terminal.
    fn from_line(line: &str, column: usize, width: usize) -> Self {
        let printable = |c: char| match c {
            '\t' => ' ',
            c if c.is_control() => '.',
            c => c,
        };
        let from = column.saturating_sub(LINE_CHARS_MAX / 2);
        let length = line.chars().count();
        let from = if length <= LINE_CHARS_MAX { 0 } else { from };
        let columns_max = LINE_CHARS_MAX.saturating_sub(column - from).max(1);
        Self {
            line: line.chars().skip(from).take(LINE_CHARS_MAX).map(printable).collect(),
            pad: " ".repeat(column - from),
            width: width.min(columns_max),
        }
    }
}

/// The terminal codes around the parts of a diagnostic; empty without color.
struct TerminalColors {
    message: &'static str,
    frame: &'static str,
    reset: &'static str,
}

impl TerminalColors {
    fn new(severity: Severity, style: DiagnosticStyle) -> Self {
        if !style.color {
            return Self {
                message: "",
                frame: "",
                reset: "",
            };
        }
        Self {
            message: match severity {
                Severity::Error => "\u{1b}[1;31m",
                Severity::Warning => "\u{1b}[1;33m",
                Severity::Note => "\u{1b}[1;36m",
            },
            frame: "\u{1b}[34m",
            reset: "\u{1b}[0m",
        }
    }

    fn color_message(&self, text: &str) -> String {
        format!("{}{}{}", self.message, text.trim_end(), self.reset)
    }

    fn color_frame(&self, text: &str) -> String {
        format!("{}{text}{}", self.frame, self.reset)
    }
}

#[cfg(test)]
mod tests {
    use model::source::{SourceText, Span};

    use super::*;

    fn unknown_field() -> Diagnostic {
        let source = SourceText {
            name: "playbooks/load.yaml".into(),
            text: "a: 1\n    tol:\n".into(),
        };
        let span = Span {
            line: 2,
            column: 5,
            start: 9,
            end: 12,
        };
        let message = "unknown field `tol` in step `fetch_page`";
        Diagnostic::new("E0107", message, span, &source)
            .with_label("did you mean `tool`?     (step takes: step tool)")
            .with_help("see the reference")
    }

    #[test]
    fn the_line_is_shown_with_its_underline_and_help() {
        let style = DiagnosticStyle {
            color: false,
            unicode: true,
        };
        let expected = [
            "error[E0107]: unknown field `tol` in step `fetch_page`",
            "  ┌─ playbooks/load.yaml:2:5",
            "2 │     tol:",
            "  │     ^^^ did you mean `tool`?     (step takes: step tool)",
            "  = help: see the reference",
            "",
        ];
        let expected = expected.join("\n");
        assert_eq!(unknown_field().render(style), expected);
    }

    #[test]
    fn plain_terminals_get_ascii_only() {
        assert!(unknown_field().render(DiagnosticStyle::default()).is_ascii());
    }

    #[test]
    fn colors_change_nothing_else() {
        let colored = unknown_field().render(DiagnosticStyle {
            color: true,
            unicode: true,
        });
        let mut plain = colored;
        for code in ["\u{1b}[1;31m", "\u{1b}[34m", "\u{1b}[0m"] {
            plain = plain.replace(code, "");
        }
        let style = DiagnosticStyle {
            color: false,
            unicode: true,
        };
        assert_eq!(plain, unknown_field().render(style));
    }

    #[test]
    fn json_has_file_line_and_column() {
        let json = serde_json::to_value(unknown_field()).unwrap();
        assert_eq!(json["file"], "playbooks/load.yaml");
        assert_eq!((json["line"].as_u64(), json["column"].as_u64()), (Some(2), Some(5)));
        assert_eq!(json["severity"], "error");
    }
}
