//! Shared by the SQL kinds: the statements of a call, and unique column names.

use language::template::{Piece, PieceOrigin};
use model::outcome::{ErrorKind, TaskError};
use serde_json::Value;

use crate::call::Call;
use crate::sql::bind::{CommandText, bind_command};
use crate::sql::error::BindError;
use crate::sql::params::Params;
use crate::sql::sql_context::{SqlContext, SqlDialect};
use crate::sql::statement::SqlStatement;

/// Overhead of a value in addition to its text, in bytes.
const VALUE_BYTES: usize = 64;

/// Binds the values and `params` of a call and returns its statements.
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

/// Commands of a task as pieces, with the origins of the pieces if they are known.
#[derive(Clone, Copy)]
pub struct CommandTexts<'a> {
    pub pieces: &'a [Vec<Piece>],
    pub origins: &'a [Vec<PieceOrigin>],
}

/// Binds some commands of a call and returns their statements.
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
    for (index, pieces) in commands.pieces.iter().enumerate() {
        let command = CommandText {
            pieces,
            origins: commands.origins.get(index).map_or(&[], Vec::as_slice),
        };
        let mut bound = bind_command(command, dialect, &params).map_err(|error| bind_task_error(&error))?;
        for statement in &mut bound {
            statement.command = index;
        }
        statements.extend(bound);
    }
    if statements.is_empty() {
        return Err(call.missing_key_error("command", "it contains no statement"));
    }
    Ok(statements)
}

/// Quoted texts of a statement, which may be file names.
pub fn quoted_texts(sql: &str, dialect: SqlDialect) -> Vec<String> {
    let text: Vec<char> = sql.chars().collect();
    let (mut context, mut at, mut before) = (SqlContext::Code, 0, String::new());
    let mut texts = Vec::new();
    let mut open_text = String::new();
    let is_inside = |context: &SqlContext| {
        !matches!(
            context,
            SqlContext::Code | SqlContext::LineComment | SqlContext::BlockComment(_)
        )
    };
    while at < text.len() {
        let quote = text[at];
        let is_doubled = is_quote_of(&context, quote) && text.get(at + 1) == Some(&quote);
        if is_doubled {
            open_text.push(quote);
            at += 2;
            continue;
        }
        let (next, length) = context.advance(&text[at..], &before, dialect);
        let end = (at + length).min(text.len());
        match (is_inside(&context), is_inside(&next)) {
            (true, true) => open_text.extend(&text[at..end]),
            (true, false) => texts.push(std::mem::take(&mut open_text)),
            (false, _) => {}
        }
        if context == SqlContext::Code {
            before.extend(&text[at..end]);
        } else {
            before.clear();
        }
        context = next;
        at = end;
    }
    texts
}

/// Whether a character ends the quotes of this context, so that two of them are one character of the text.
fn is_quote_of(context: &SqlContext, c: char) -> bool {
    match context {
        SqlContext::Text { .. } => c == '\'',
        SqlContext::Ident(end) | SqlContext::Unicode(end) => c == *end && c != ']',
        SqlContext::Code
        | SqlContext::Escape
        | SqlContext::LineComment
        | SqlContext::BlockComment(_)
        | SqlContext::DollarQuoted(_) => false,
    }
}

/// Approximate memory of a value in a row, in bytes.
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

/// Numbers repeated column names, because rows are maps.
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
        BindError::TemplateStatement => "; if its content is trusted SQL, append `| raw_sql`",
        BindError::Missing(_) | BindError::NotAllowed(_) | BindError::Nul | BindError::UnnumberedParam => "",
    };
    TaskError::new(ErrorKind::Schema, "SQL_BIND", format!("{error}{remedy}"))
}
