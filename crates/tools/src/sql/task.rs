//! What the tasks of every SQL kind share: a call's statements, and names for the columns of their rows.

use language::template::{Piece, PieceOrigin};
use model::outcome::{ErrorKind, TaskError};
use serde_json::Value;

use crate::call::Call;
use crate::sql::bind::{CommandText, bind_command};
use crate::sql::error::BindError;
use crate::sql::params::Params;
use crate::sql::sql_context::{SqlContext, SqlDialect};
use crate::sql::statement::SqlStatement;

/// What a value takes in memory besides its text.
const VALUE_BYTES: usize = 64;

/// The statements of a call, its values and `params` bound.
pub fn bind_statements(call: &Call, dialect: SqlDialect) -> Result<Vec<SqlStatement>, TaskError> {
    let key = ["command", "commands", "query"];
    let key = key.iter().find(|key| call.pieces.contains_key(**key));
    let key = key.ok_or_else(|| call.missing_key_error("command", "write the SQL to run"))?;
    let commands = CommandTexts {
        pieces: call.pieces.get(*key).map_or(&[], Vec::as_slice),
        origins: call.origins.get(*key).map_or(&[], Vec::as_slice),
    };
    let mut statements = bind_commands(call, commands, call.field("params"), dialect)?;
    for statement in &mut statements {
        let lines = &call.site.command_lines;
        if let Some(line) = lines.get(statement.command).or(lines.first()) {
            statement.set_start_line(*line as usize);
        }
    }
    Ok(statements)
}

/// The commands of a task, in pieces, with where these come from as far as that is known.
#[derive(Clone, Copy)]
pub struct CommandTexts<'a> {
    pub pieces: &'a [Vec<Piece>],
    pub origins: &'a [Vec<PieceOrigin>],
}

/// The statements of some commands of a call.
pub fn bind_commands(
    call: &Call,
    commands: CommandTexts<'_>,
    params: Option<&Value>,
    dialect: SqlDialect,
) -> Result<Vec<SqlStatement>, TaskError> {
    let params = match params {
        None => Params::None,
        Some(Value::Array(list)) => Params::List(list.clone()),
        Some(Value::Object(map)) => Params::Map(map.clone()),
        Some(other) => return Err(call.wrong_type_error("params", "a list or a map", other)),
    };
    let mut statements: Vec<SqlStatement> = Vec::new();
    for (at, pieces) in commands.pieces.iter().enumerate() {
        let command = CommandText {
            pieces,
            origins: commands.origins.get(at).map_or(&[], Vec::as_slice),
        };
        let mut bound = bind_command(command, dialect, &params).map_err(|error| bind_task_error(&error))?;
        for statement in &mut bound {
            statement.command = at;
        }
        statements.extend(bound);
    }
    if statements.is_empty() {
        return Err(call.missing_key_error("command", "it holds no statement"));
    }
    Ok(statements)
}

/// The texts in quotes of a statement, as far as they may name files.
pub fn quoted_texts(sql: &str, dialect: SqlDialect) -> Vec<String> {
    let text: Vec<char> = sql.chars().collect();
    let (mut place, mut at, mut before) = (SqlContext::Code, 0, String::new());
    let mut found = Vec::new();
    let mut open = String::new();
    let is_inside = |place: &SqlContext| {
        !matches!(
            place,
            SqlContext::Code | SqlContext::LineComment | SqlContext::BlockComment(_)
        )
    };
    while at < text.len() {
        let quote = text[at];
        let is_doubled = is_quote_of(&place, quote) && text.get(at + 1) == Some(&quote);
        if is_doubled {
            open.push(quote);
            at += 2;
            continue;
        }
        let (next, length) = place.advance(&text[at..], &before, dialect);
        let end = (at + length).min(text.len());
        match (is_inside(&place), is_inside(&next)) {
            (true, true) => open.extend(&text[at..end]),
            (true, false) => found.push(std::mem::take(&mut open)),
            (false, _) => {}
        }
        if place == SqlContext::Code {
            before.extend(&text[at..end]);
        } else {
            before.clear();
        }
        place = next;
        at = end;
    }
    found
}

/// Whether a character ends the quotes of a place, so that two of them are one character of the text.
fn is_quote_of(place: &SqlContext, c: char) -> bool {
    match place {
        SqlContext::Text { .. } => c == '\'',
        SqlContext::Ident(end) | SqlContext::Unicode(end) => c == *end && c != ']',
        SqlContext::Code
        | SqlContext::Escape
        | SqlContext::LineComment
        | SqlContext::BlockComment(_)
        | SqlContext::DollarQuoted(_) => false,
    }
}

/// About as many bytes of memory as a value takes with its place in a row.
pub fn memory_bytes(value: &Value) -> usize {
    VALUE_BYTES
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(memory_bytes).sum(),
            Value::Object(map) => {
                let entries = map.iter();
                let sizes = entries.map(|(key, value)| key.len() + memory_bytes(value));
                sizes.sum()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}

/// Two columns of one name would be one key, so the second gets a number.
pub fn unique_names(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut columns: Vec<String> = Vec::new();
    for name in names {
        let mut candidate = name.clone();
        let mut number = 2;
        while columns.contains(&candidate) {
            candidate = format!("{name}_{number}");
            number += 1;
        }
        columns.push(candidate);
    }
    columns
}

fn bind_task_error(error: &BindError) -> TaskError {
    let remedy = match error {
        BindError::Ident(_) => "; use letters, digits and `_`, or `| ident` for a whole name",
        BindError::TemplateStatement => "; write `| raw_sql` behind it, if nobody else can write what it holds",
        BindError::Missing(_) | BindError::Place(_) | BindError::Nul | BindError::UnnumberedParam => "",
    };
    TaskError::new(ErrorKind::Schema, "SQL_BIND", format!("{error}{remedy}"))
}
