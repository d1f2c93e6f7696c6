//! Inserts a template's value into a statement: as a literal, a parameter, part of a name, or escaped text.

use language::template::PieceOrigin;
use serde_json::Value;

use crate::sql::bind::StatementBinder;
use crate::sql::duckdb::push_char;
use crate::sql::error::BindError;
use crate::sql::neighbors::{fits_into_name, follows_dot, is_in_list, precedes_dot};
use crate::sql::quote::{SignStyle, escape_text, is_typed_literal, quoted_names, sql_literal, value_text};
use crate::sql::sql_context::{SqlContext, SqlDialect, continues_name, is_word_character};
use crate::sql::statement::SlotSource;
use crate::sql::statement_words::QuotedText;

impl StatementBinder<'_> {
    pub(super) fn place_value(
        &mut self,
        value: &Value,
        after: &str,
        origin: Option<&PieceOrigin>,
    ) -> Result<(), BindError> {
        self.check_unambiguous()?;
        self.check_sql_text(value)?;
        if self.context == SqlContext::Code {
            return self.place_in_code(value, after, origin);
        }
        let is_quoted = matches!(self.context, SqlContext::Text { .. } | SqlContext::DollarQuoted(_));
        if is_quoted && self.quotes.kind() == QuotedText::Body {
            return Err(BindError::NotAllowed(
                "in a routine body in `'…'`; write the body in `$$…$$`",
            ));
        }
        if is_quoted && !self.quotes.is_after_comma(&self.text) {
            self.check_dynamic_sql()?;
        }
        let text = value_text(value)?;
        let escaped = escape_text(&self.context, text)?;
        self.routine_bodies.mark_value();
        match (self.dialect, &self.context) {
            (SqlDialect::Duckdb, context @ SqlContext::BlockComment(_)) => {
                escaped.chars().for_each(|c| push_char(&mut self.text, context, c));
            }
            _ => self.text.push_str(&escaped),
        }
        self.mark_line();
        Ok(())
    }

    /// Rejects text inside dynamic SQL of `EXECUTE`, which would parse it as SQL.
    fn check_dynamic_sql(&mut self) -> Result<(), BindError> {
        if !self.routine_bodies.is_empty() && self.words.is_executed() {
            return Err(BindError::NotAllowed(
                "in text that `EXECUTE` runs; pass it with `USING`, or as an argument of `format` with `%L` or `%I`",
            ));
        }
        Ok(())
    }

    /// Rejects text inside SQL that a function runs, which would parse it as SQL.
    fn check_sql_text(&mut self, value: &Value) -> Result<(), BindError> {
        let is_comment = matches!(self.context, SqlContext::LineComment | SqlContext::BlockComment(_));
        let is_harmless = match value {
            Value::Null | Value::Bool(_) => true,
            // Two minus signs would start a comment.
            Value::Number(number) => !number.to_string().starts_with('-'),
            Value::String(_) | Value::Array(_) | Value::Object(_) => false,
        };
        if is_comment || is_harmless || !self.words.is_in_sql_text() {
            return Ok(());
        }
        Err(BindError::NotAllowed(
            "in text that a function such as `query` runs as SQL; use that SQL as the command instead",
        ))
    }

    fn place_in_code(&mut self, value: &Value, after: &str, origin: Option<&PieceOrigin>) -> Result<(), BindError> {
        if self.is_after_value {
            return Err(BindError::NotAllowed(
                "directly after another value; join them in one template: `{{ a ~ b }}`",
            ));
        }
        let before = self.code().chars().next_back();
        let is_name = |c: char| self.dialect.is_postgres_like() && continues_name(c, self.dialect);
        if before.is_some_and(|c| is_name(c) && !is_word_character(c)) {
            return Err(BindError::NotAllowed(
                "directly after `$` or another character of a name; write templates without `$`",
            ));
        }
        let touches = before.is_some_and(is_word_character) || after.starts_with(is_word_character);
        if touches {
            return self.extend_name(value, after);
        }
        if follows_dot(&self.text) || precedes_dot(after) || self.words.needs_name() {
            return self.place_name(value, after);
        }
        let source = |item: usize| match origin.and_then(|origin| origin.expression.clone()) {
            Some(text) => SlotSource::Expression { text, item },
            None => SlotSource::Unknown,
        };
        match value {
            Value::Array(items) if is_in_list(&self.text) => {
                if items.is_empty() {
                    self.text.push_str("NULL");
                    self.add_other();
                }
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        self.text.push_str(", ");
                    }
                    self.push_value(item, source(index))?;
                }
                Ok(())
            }
            other => self.push_value(other, source(0)),
        }
    }

    /// Adds a template's value. Routine bodies have no parameters, so values in them become literals.
    fn push_value(&mut self, value: &Value, source: SlotSource) -> Result<(), BindError> {
        let is_literal = is_typed_literal(value, self.dialect);
        if self.routine_bodies.is_empty() {
            self.push_slot(value.clone(), source, is_literal);
            return Ok(());
        }
        if !is_literal {
            self.check_dynamic_sql()?;
            value_text(value)?;
        }
        self.routine_bodies.mark_value();
        let literal = sql_literal(value, self.dialect, SignStyle::Parentheses);
        self.text.push_str(&format!(" {literal} "));
        self.mark_line();
        self.add_other();
        Ok(())
    }

    /// Adds a value to the name around it, if it cannot end the name.
    fn extend_name(&mut self, value: &Value, after: &str) -> Result<(), BindError> {
        let text = value_text(value)?;
        if !fits_into_name(&text, &self.text, after) {
            return Err(BindError::Ident(text));
        }
        text.chars().for_each(|c| self.words.read_char(c));
        self.routine_bodies.mark_value();
        self.text.push_str(&text);
        self.ended_context = None;
        Ok(())
    }

    /// Writes a name, a dotted name, or a list of names, in quotes.
    pub(super) fn place_name(&mut self, value: &Value, after: &str) -> Result<(), BindError> {
        self.check_unambiguous()?;
        let before = self.text.chars().next_back();
        let is_quote = |c: char| "\"`'".contains(c);
        if self.is_after_value || before.is_some_and(is_quote) || after.starts_with(is_quote) {
            return Err(BindError::NotAllowed(
                "as a name next to another value or a quote; write a dot or a space between them",
            ));
        }
        let names = quoted_names(value)?;
        if before.is_some_and(|c| !c.is_whitespace() && !".(,".contains(c)) {
            self.text.push(' ');
        }
        self.routine_bodies.mark_value();
        self.text.push_str(&names.text);
        self.names.extend(names.names);
        self.mark_line();
        self.add_other();
        Ok(())
    }
}
