//! Tables without borders, at most as wide as the terminal.

use comfy_table::{Cell, ContentArrangement, Table, presets};

use crate::terminal_style::TerminalStyle;

/// Formats a table with these headings and rows.
pub(crate) fn render_table(
    headings: &[&str],
    rows: Vec<Vec<String>>,
    surface: TerminalStyle,
) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.force_no_tty();
    if let Some(columns) = surface.columns {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(columns).unwrap_or(u16::MAX));
    }
    table.set_header(
        headings
            .iter()
            .map(|heading| Cell::new(surface.dim(heading))),
    );
    for row in rows {
        table.add_row(row);
    }
    for index in 0..headings.len() {
        if let Some(column) = table.column_mut(index) {
            column.set_padding((0, 2));
        }
    }
    let text = table.to_string();
    let lines = text.lines().map(str::trim_end);
    lines.collect::<Vec<_>>().join("\n")
}
