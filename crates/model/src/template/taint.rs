//! Tracks which parts of a rendered value are derived from secrets, their masked form, and their texts.
//!
//! Input: a value and the session that rendered it. Output: its taint. Taint follows the origin: the result of an
//! expression that reads a secret is tainted, whatever its text is.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::{Map, Value};

use crate::template::compile::Form;
use crate::template::origin::WrittenPiece;
use crate::template::session::Session;
use crate::template::tree::{Piece, Template};

/// Shown in place of a secret.
pub const MASK: &str = "***";

/// How a value depends on secrets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// It does not.
    #[default]
    Plain,
    /// On fields of credentials that are not secret, such as `host`: masked in records, but too common to be masked in
    /// the output of programs.
    Field,
    /// On secret fields of credentials.
    Secret,
}

/// The parts of a rendered value that are derived from secrets.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Taint {
    /// None.
    #[default]
    Clean,
    /// The whole value.
    Whole {
        /// The masked value, for display.
        shown: Value,
        /// The kind of secret that it is derived from.
        origin: Origin,
    },
    /// The items of a list, each with its taint.
    List(Vec<Taint>),
    /// The tainted entries of a map; all others are clean.
    Map(BTreeMap<String, Taint>),
}

impl Taint {
    /// Whether no part is derived from a secret.
    pub fn is_clean(&self) -> bool {
        match self {
            Self::Clean => true,
            Self::Whole { .. } => false,
            Self::List(items) => items.iter().all(Self::is_clean),
            Self::Map(entries) => entries.values().all(Self::is_clean),
        }
    }

    /// Returns the value with `***` in place of tainted parts, for display.
    pub fn shown(&self, value: &Value) -> Value {
        match (self, value) {
            (Self::Whole { shown, .. }, _) => shown.clone(),
            (Self::List(taints), Value::Array(items)) => {
                let clean = std::iter::repeat(&Self::Clean);
                let pairs = items.iter().zip(taints.iter().chain(clean));
                pairs.map(|(item, taint)| taint.shown(item)).collect()
            }
            (Self::Map(taints), Value::Object(entries)) => {
                let shown = entries.iter().map(|(key, value)| {
                    let taint = taints.get(key).unwrap_or(&Self::Clean);
                    (key.clone(), taint.shown(value))
                });
                Value::Object(shown.collect())
            }
            _ => value.clone(),
        }
    }
}

/// The taint of a rendered value.
pub(super) struct Found {
    pub(super) taint: Taint,
    pub(super) secrets: Vec<String>,
}

/// Determines the taint of a value and the secret texts in it.
pub(super) fn of_value(template: &Template, value: &Value, session: &Session) -> Found {
    let origin = session.origin;
    if origin == Origin::Plain {
        return Found {
            taint: Taint::Clean,
            secrets: Vec::new(),
        };
    }
    let program = template.program();
    let mut secrets = Vec::new();
    let shown = match value {
        // Without statements, a printed value depends only on its own expression, and the text between is the author's.
        Value::String(text) if program.form == Form::Text && !program.has_statements => {
            for (range, origin) in &session.printed_secrets {
                if *origin == Origin::Secret {
                    secrets.extend(text.get(range.clone()).map(ToOwned::to_owned));
                }
            }
            Value::String(with_masks(text, &session.printed_secrets))
        }
        _ => {
            let is_path = is_plain_path(template.source());
            if origin == Origin::Secret {
                texts(value, is_path, &mut secrets);
            }
            if is_path { starred(value) } else { MASK.into() }
        }
    };
    forget_literals(template, &mut secrets);
    Found {
        taint: Taint::Whole { shown, origin },
        secrets,
    }
}

/// Determines the masked pieces (`None` if they need no masking) and the secret texts in them.
pub(super) fn of_pieces(
    template: &Template,
    pieces: &[WrittenPiece],
    session: &Session,
) -> (Option<Vec<Piece>>, Vec<String>) {
    if session.origin == Origin::Plain {
        return (None, Vec::new());
    }
    let mut secrets = Vec::new();
    let by_piece = template.program().form == Form::Text && !template.program().has_statements;
    let origin_of = |at: usize| {
        let found = session.secret_pieces.iter().find(|(index, _)| *index == at);
        match found {
            _ if !by_piece => session.origin,
            Some((_, origin)) => *origin,
            None => Origin::Plain,
        }
    };
    let mut shown = Vec::with_capacity(pieces.len());
    for (at, WrittenPiece { piece, .. }) in pieces.iter().enumerate() {
        let origin = origin_of(at);
        if origin == Origin::Secret {
            piece_texts(piece, &mut secrets);
        }
        shown.push(if origin == Origin::Plain {
            piece.clone()
        } else {
            masked_piece(piece)
        });
    }
    if template.program().has_statements {
        // With statements, even the choice of the author's texts may reveal a secret.
        shown = vec![Piece::Text(MASK.to_owned())];
    }
    forget_literals(template, &mut secrets);
    (Some(shown), secrets)
}

fn masked_piece(piece: &Piece) -> Piece {
    match piece {
        Piece::Text(text) => Piece::Text(text.clone()),
        Piece::Value(_) => Piece::Value(MASK.into()),
        Piece::Ident(_) => Piece::Ident(MASK.into()),
        Piece::Raw(_) => Piece::Raw(MASK.to_owned()),
    }
}

fn piece_texts(piece: &Piece, into: &mut Vec<String>) {
    match piece {
        Piece::Text(_) => {}
        Piece::Raw(text) => into.push(text.clone()),
        Piece::Value(value) | Piece::Ident(value) => texts(value, false, into),
    }
}

/// Collects the texts and numbers of a value, and its keys unless they are the field names of a credential.
fn texts(value: &Value, is_path: bool, into: &mut Vec<String>) {
    match value {
        Value::String(text) => into.push(text.clone()),
        Value::Number(number) => into.push(number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| texts(item, is_path, into)),
        Value::Object(map) => {
            for (key, value) in map {
                if !is_path {
                    into.push(key.clone());
                }
                texts(value, is_path, into);
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// Removes literals of the template: they are not secret, even if an expression chose them by a secret.
fn forget_literals(template: &Template, secrets: &mut Vec<String>) {
    secrets.retain(|text| !template.source().contains(text.as_str()));
}

/// Returns a map or list with every scalar masked.
fn starred(value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        Value::Array(items) => items.iter().map(starred).collect(),
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| (key.clone(), starred(value)));
            Value::Object(entries.collect::<Map<_, _>>())
        }
        _ => MASK.into(),
    }
}

fn with_masks(text: &str, ranges: &[(Range<usize>, Origin)]) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut end = 0;
    for (range, _) in ranges {
        shown.push_str(text.get(end..range.start).unwrap_or_default());
        shown.push_str(MASK);
        end = range.end;
    }
    shown.push_str(text.get(end..).unwrap_or_default());
    shown
}

/// Whether a scalar is exactly a path such as `{{ a.b['c'][0] }}`.
pub(super) fn is_plain_path(source: &str) -> bool {
    let inner = source.trim().strip_prefix("{{");
    let inner = inner.and_then(|inner| inner.strip_suffix("}}"));
    let Some(path) = inner.map(|inner| inner.trim_matches(|c: char| c == '-' || c.is_whitespace()))
    else {
        return false;
    };
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '[' | ']' | '\'' | '"');
    path.starts_with(|c: char| c.is_alphabetic() || c == '_') && path.chars().all(is_part)
}
