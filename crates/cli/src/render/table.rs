//! Tables without borders, at most as wide as the terminal.

use comfy_table::{Cell, ContentArrangement, Table, presets};
use serde::Serialize;

use crate::output::Output;
use crate::terminal_style::TerminalStyle;

/// A list that a command prints.
pub(crate) struct ListFormat<'a> {
    pub(crate) headings: &'a [&'a str],
    /// Message for an empty list.
    pub(crate) empty_message: &'a str,
}

/// Prints a list: its entries for a program, a table for a person.
pub(crate) fn print_list<T: Serialize>(
    out: &Output,
    entries: &[T],
    format: &ListFormat<'_>,
    row: impl Fn(&T) -> Vec<String>,
) {
    if out.is_machine() {
        out.print_records(entries);
    } else if entries.is_empty() {
        out.info(format.empty_message);
    } else {
        let rows = entries.iter().map(row).collect();
        out.print_data(&render_table(format.headings, rows, out.stdout));
    }
}

/// Formats a table with these headings and rows.
pub(crate) fn render_table(headings: &[&str], rows: Vec<Vec<String>>, style: TerminalStyle) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.force_no_tty();
    if let Some(columns) = style.columns {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(columns).unwrap_or(u16::MAX));
    }
    table.set_header(headings.iter().map(|heading| Cell::new(style.dim(heading))));
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
