//! Tracks which parts of a rendered value are derived from secrets, their masked form, and their texts.
//!
//! Input: a value and the session that rendered it. Output: its taint. Taint follows the origin: the result of an
//! expression that reads a secret is tainted, whatever its text is.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::{Map, Value};

use crate::template::compile::OutputForm;
use crate::template::origin::WrittenPiece;
use crate::template::session::RenderSession;
use crate::template::tree::{Piece, Template};

/// Shown in place of a secret.
pub const MASK: &str = "***";

/// How a value depends on secrets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecretOrigin {
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
        masked: Value,
        /// The kind of secret that it is derived from.
        origin: SecretOrigin,
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
    pub fn mask(&self, value: &Value) -> Value {
        match (self, value) {
            (
                Self::Whole {
                    masked: masked_value, ..
                },
                _,
            ) => masked_value.clone(),
            (Self::List(taints), Value::Array(items)) => {
                let clean = std::iter::repeat(&Self::Clean);
                let pairs = items.iter().zip(taints.iter().chain(clean));
                pairs.map(|(item, taint)| taint.mask(item)).collect()
            }
            (Self::Map(taints), Value::Object(entries)) => {
                let masked_value = entries.iter().map(|(key, value)| {
                    let taint = taints.get(key).unwrap_or(&Self::Clean);
                    (key.clone(), taint.mask(value))
                });
                Value::Object(masked_value.collect())
            }
            _ => value.clone(),
        }
    }
}

/// The taint of a rendered value.
pub(super) struct ValueTaint {
    pub(super) taint: Taint,
    pub(super) secrets: Vec<String>,
}

/// Determines the taint of a value and the secret texts in it.
pub(super) fn taint_of_value(template: &Template, value: &Value, session: &RenderSession) -> ValueTaint {
    let origin = session.origin;
    if origin == SecretOrigin::Plain {
        return ValueTaint {
            taint: Taint::Clean,
            secrets: Vec::new(),
        };
    }
    let program = template.program();
    let mut secrets = Vec::new();
    let masked_value = match value {
        // Without statements, a printed value depends only on its own expression, and the text between is the author's.
        Value::String(text) if program.form == OutputForm::Text && !program.has_statements => {
            for (range, origin) in &session.printed_secrets {
                if *origin == SecretOrigin::Secret {
                    secrets.extend(text.get(range.clone()).map(ToOwned::to_owned));
                }
            }
            Value::String(mask_ranges(text, &session.printed_secrets))
        }
        _ => {
            let is_path = is_plain_path(template.source());
            if origin == SecretOrigin::Secret {
                collect_texts(value, is_path, &mut secrets);
            }
            if is_path { mask_scalars(value) } else { MASK.into() }
        }
    };
    forget_literals(template, &mut secrets);
    ValueTaint {
        taint: Taint::Whole {
            masked: masked_value,
            origin,
        },
        secrets,
    }
}

/// Determines the masked pieces (`None` if they need no masking) and the secret texts in them.
pub(super) fn taint_of_pieces(
    template: &Template,
    pieces: &[WrittenPiece],
    session: &RenderSession,
) -> (Option<Vec<Piece>>, Vec<String>) {
    if session.origin == SecretOrigin::Plain {
        return (None, Vec::new());
    }
    let mut secrets = Vec::new();
    let by_piece = template.program().form == OutputForm::Text && !template.program().has_statements;
    let origin_of = |piece_index: usize| {
        let secret_piece = session.secret_pieces.iter().find(|(index, _)| *index == piece_index);
        match secret_piece {
            _ if !by_piece => session.origin,
            Some((_, origin)) => *origin,
            None => SecretOrigin::Plain,
        }
    };
    let mut masked_pieces = Vec::with_capacity(pieces.len());
    for (index, WrittenPiece { piece, .. }) in pieces.iter().enumerate() {
        let origin = origin_of(index);
        if origin == SecretOrigin::Secret {
            collect_piece_texts(piece, &mut secrets);
        }
        masked_pieces.push(if origin == SecretOrigin::Plain {
            piece.clone()
        } else {
            masked_piece(piece)
        });
    }
    if template.program().has_statements {
        // With statements, even the choice of the author's texts may reveal a secret.
        masked_pieces = vec![Piece::Text(MASK.to_owned())];
    }
    forget_literals(template, &mut secrets);
    (Some(masked_pieces), secrets)
}

fn masked_piece(piece: &Piece) -> Piece {
    match piece {
        Piece::Text(text) => Piece::Text(text.clone()),
        Piece::Value(_) => Piece::Value(MASK.into()),
        Piece::Ident(_) => Piece::Ident(MASK.into()),
        Piece::Raw(_) => Piece::Raw(MASK.to_owned()),
    }
}

fn collect_piece_texts(piece: &Piece, into: &mut Vec<String>) {
    match piece {
        Piece::Text(_) => {}
        Piece::Raw(text) => into.push(text.clone()),
        Piece::Value(value) | Piece::Ident(value) => collect_texts(value, false, into),
    }
}

/// Collects the texts and numbers of a value, and its keys unless they are the field names of a credential.
fn collect_texts(value: &Value, is_path: bool, into: &mut Vec<String>) {
    match value {
        Value::String(text) => into.push(text.clone()),
        Value::Number(number) => into.push(number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| collect_texts(item, is_path, into)),
        Value::Object(map) => {
            for (key, value) in map {
                if !is_path {
                    into.push(key.clone());
                }
                collect_texts(value, is_path, into);
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
fn mask_scalars(value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        Value::Array(items) => items.iter().map(mask_scalars).collect(),
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| (key.clone(), mask_scalars(value)));
            Value::Object(entries.collect::<Map<_, _>>())
        }
        _ => MASK.into(),
    }
}

fn mask_ranges(text: &str, ranges: &[(Range<usize>, SecretOrigin)]) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut end = 0;
    for (range, _) in ranges {
        masked.push_str(text.get(end..range.start).unwrap_or_default());
        masked.push_str(MASK);
        end = range.end;
    }
    masked.push_str(text.get(end..).unwrap_or_default());
    masked
}

/// Whether a scalar is exactly a path such as `{{ a.b['c'][0] }}`.
pub(super) fn is_plain_path(source: &str) -> bool {
    let inner = source.trim().strip_prefix("{{");
    let inner = inner.and_then(|inner| inner.strip_suffix("}}"));
    let Some(path) = inner.map(|inner| inner.trim_matches(|c: char| c == '-' || c.is_whitespace())) else {
        return false;
    };
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '[' | ']' | '\'' | '"');
    path.starts_with(|c: char| c.is_alphabetic() || c == '_') && path.chars().all(is_part)
}
