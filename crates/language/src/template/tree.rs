//! Templates in scalars, and trees of lists and maps that contain them.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::number_range::NumberRange;
use model::source::Span;
use serde_json::Value;

use crate::template::budget::ITEM_BYTES;
use crate::template::compile::{OutputForm, Program};
use crate::template::origin::PieceOrigin;
use crate::template::reference::BodyPath;
use crate::template::render;
use crate::template::rewrite::PathUse;
use crate::template::scope::{Need, Scope};
use crate::template::taint::Taint;

/// A compiled template. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Template {
    source: Arc<str>,
    span: Span,
    program: Arc<Program>,
}

/// A value in which any scalar may be a template.
#[derive(Debug, Clone)]
pub enum Tree {
    /// Plain data, no template anywhere inside.
    Literal(Value),
    /// A template.
    Template(Template),
    /// A list.
    List(Vec<Tree>),
    /// A map, in YAML order.
    Map(Vec<(String, Tree)>),
}

/// The result of rendering a template.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    /// The value, with its native type.
    pub value: Value,
    /// The parts that are derived from secrets; these may only be used in a tool's call.
    pub taint: Taint,
    /// The secret texts and numbers in it that are not literals of the template.
    pub secrets: Vec<String>,
}

impl Rendered {
    /// Creates a value without secrets.
    pub fn without_secrets(value: Value) -> Self {
        Self {
            value,
            taint: Taint::Clean,
            secrets: Vec::new(),
        }
    }

    /// Whether any part is derived from a secret.
    pub fn is_tainted(&self) -> bool {
        !self.taint.is_clean()
    }

    /// Returns the masked value, for display.
    pub fn masked(&self) -> Value {
        self.taint.mask(&self.value)
    }
}

/// A template rendered to the author's text and the values between.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RenderedPieces {
    /// The pieces.
    pub pieces: Vec<Piece>,
    /// The origin of each piece.
    pub origins: Vec<PieceOrigin>,
    /// The masked pieces, for display; `None` if they need no masking.
    pub masked: Option<Vec<Piece>>,
    /// The secret texts and numbers in them that are not literals of the template.
    pub secrets: Vec<String>,
}

impl RenderedPieces {
    /// Returns the pieces of a program, each with whether it is JSON from a filter.
    pub fn code_pieces(&self) -> Vec<CodePiece> {
        let pieces = self.pieces.iter().zip(&self.origins);
        let marked = pieces.map(|(piece, origin)| CodePiece {
            piece: piece.clone(),
            is_json: origin.is_json,
        });
        marked.collect()
    }

    /// Returns the masked pieces; `None` if they need no masking.
    pub fn masked_code(&self) -> Option<Vec<CodePiece>> {
        let pieces = self.masked.as_ref()?.iter().cloned();
        let marked = pieces.map(|piece| CodePiece { piece, is_json: false });
        Some(marked.collect())
    }
}

/// A part of a rendered text: the author's text, or the value of a template.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// The author's text.
    Text(String),
    /// A value, which is quoted or bound according to its position.
    Value(Value),
    /// A value that the author marked as an identifier, `| ident`.
    Ident(Value),
    /// A value that the author marked as code, `| raw_sql`, `| raw_sh`, `| raw_py`, `| raw_rhai` or `| raw_jq`.
    Raw(String),
}

/// A part of a rendered program.
#[derive(Debug, Clone, PartialEq)]
pub struct CodePiece {
    /// The part.
    pub piece: Piece,
    /// Whether it is JSON from `tojson` or `to_json`; another language may write it as its own literal.
    pub is_json: bool,
}

/// A syntax error of a template.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// What is wrong.
    pub message: String,
    /// The byte range in the template's own text.
    pub range: Option<std::ops::Range<usize>>,
}

/// A template that could not be rendered.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RenderError {
    /// Values must be loaded first; the caller loads them and renders again.
    #[error("a stored value must be loaded first")]
    Needs(Vec<Need>),
    /// The template failed; rendering it again does not help.
    #[error("{message}")]
    Failed {
        /// `TEMPLATE_UNDEFINED`, `TEMPLATE_ERROR`, `TEMPLATE_LIMIT`, `LIMIT_LOOP_ITEMS` or `BODY_TOO_LARGE`.
        code: &'static str,
        /// What is wrong, with the expression.
        message: String,
        /// The position in the playbook.
        span: Span,
    },
}

impl Template {
    /// Parses a template scalar at `span`.
    pub fn parse(source: &str, span: Span) -> Result<Self, SyntaxError> {
        let source: Arc<str> = source.into();
        let program = Arc::new(Program::scalar(&source)?);
        Ok(Self { source, span, program })
    }

    /// Parses a condition: an expression, with or without braces around it.
    pub fn condition(source: &str, span: Span) -> Result<Self, SyntaxError> {
        let source: Arc<str> = source.into();
        let program = Arc::new(Program::condition(&source)?);
        Ok(Self { source, span, program })
    }

    /// The text as written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The position in the playbook.
    pub fn span(&self) -> Span {
        self.span
    }

    /// The dotted paths that it reads: `iter.page`, `outcome.http.status`.
    pub fn paths(&self) -> &[String] {
        &self.program.paths
    }

    /// All positions at which it reads a path.
    pub fn path_uses(&self) -> Vec<PathUse> {
        self.program.uses.clone()
    }

    /// Whether it is a single expression that is not marked as code.
    pub fn is_one_value(&self) -> bool {
        let marks = ["raw_sql", "raw_py", "raw_rhai", "raw_jq"];
        self.program.form == OutputForm::Value && !marks.iter().any(|mark| self.source.contains(mark))
    }

    /// Renders it to a value.
    pub fn render(&self, scope: &Scope) -> Result<Rendered, RenderError> {
        render::render_value(self, scope)
    }

    /// Returns the path into a body, if the template is one plain path into it: the caller can then read the value
    /// without rendering.
    pub fn body_path(&self, scope: &Scope) -> Result<Option<BodyPath>, RenderError> {
        render::find_body_path(self, scope)
    }

    /// Returns the range, if it is exactly `range(…)` or `range(…) | list`, without listing the items.
    pub fn number_range(&self, scope: &Scope) -> Result<Option<NumberRange>, RenderError> {
        render::render_number_range(self, scope)
    }

    /// Renders it as a condition.
    pub fn is_true(&self, scope: &Scope) -> Result<bool, RenderError> {
        render::render_condition(self, scope)
    }

    /// Renders it to the author's text and the values between, for languages that quote or bind values by position,
    /// with the origin and the masked form of each.
    pub fn rendered_pieces(&self, scope: &Scope) -> Result<RenderedPieces, RenderError> {
        render::render_pieces(self, scope)
    }

    pub(crate) fn program(&self) -> &Program {
        &self.program
    }
}

impl Tree {
    /// Renders all templates in it; the result is tainted if any of them is.
    pub fn render(&self, scope: &Scope) -> Result<Rendered, RenderError> {
        let mut findings = RenderFindings::default();
        let (value, taint) = self.render_into(scope, &mut findings)?;
        if findings.needs.is_empty() {
            Ok(Rendered {
                value,
                taint,
                secrets: findings.secrets,
            })
        } else {
            Err(RenderError::Needs(findings.needs))
        }
    }

    /// Returns the path into a body, if it is one template that is a plain path into it.
    pub fn body_path(&self, scope: &Scope) -> Result<Option<BodyPath>, RenderError> {
        match self {
            Self::Template(template) => template.body_path(scope),
            Self::Literal(_) | Self::List(_) | Self::Map(_) => Ok(None),
        }
    }

    /// Returns the range, if it is one template that is exactly `range(…)`.
    pub fn number_range(&self, scope: &Scope) -> Result<Option<NumberRange>, RenderError> {
        match self {
            Self::Template(template) => template.number_range(scope),
            Self::Literal(_) | Self::List(_) | Self::Map(_) => Ok(None),
        }
    }

    /// Whether it contains no template.
    pub fn is_literal(&self) -> bool {
        match self {
            Self::Literal(_) => true,
            Self::Template(_) => false,
            Self::List(items) => items.iter().all(Self::is_literal),
            Self::Map(entries) => entries.iter().all(|(_, tree)| tree.is_literal()),
        }
    }

    /// Calls `f` for every template in it.
    pub fn walk(&self, f: &mut dyn FnMut(&Template)) {
        match self {
            Self::Literal(_) => {}
            Self::Template(template) => f(template),
            Self::List(items) => items.iter().for_each(|tree| tree.walk(f)),
            Self::Map(entries) => entries.iter().for_each(|(_, tree)| tree.walk(f)),
        }
    }

    /// Continues after missing values, so that one round of loading is enough for the whole tree.
    fn render_into(&self, scope: &Scope, findings: &mut RenderFindings) -> Result<(Value, Taint), RenderError> {
        Ok(match self {
            Self::Literal(value) => (value.clone(), Taint::Clean),
            Self::Template(template) => match template.render(scope) {
                Ok(rendered) => {
                    findings.secrets.extend(rendered.secrets);
                    (rendered.value, rendered.taint)
                }
                Err(RenderError::Needs(missing)) => {
                    findings.add_needs(missing);
                    (Value::Null, Taint::Clean)
                }
                Err(failed) => return Err(failed),
            },
            Self::List(items) => {
                let (mut values, mut taints) = (Vec::new(), Vec::new());
                for tree in items {
                    let (value, taint) = tree.render_into(scope, findings)?;
                    values.push(value);
                    taints.push(taint);
                }
                let is_clean = taints.iter().all(Taint::is_clean);
                let taint = if is_clean { Taint::Clean } else { Taint::List(taints) };
                (Value::Array(values), taint)
            }
            Self::Map(entries) => {
                let mut map = serde_json::Map::new();
                let mut taints = BTreeMap::new();
                for (key, tree) in entries {
                    let (value, taint) = tree.render_into(scope, findings)?;
                    map.insert(key.clone(), value);
                    if !taint.is_clean() {
                        taints.insert(key.clone(), taint);
                    }
                }
                let is_clean = taints.is_empty();
                let taint = if is_clean { Taint::Clean } else { Taint::Map(taints) };
                (Value::Object(map), taint)
            }
        })
    }
}

/// The needs, taints and secrets of the templates of a tree.
#[derive(Default)]
struct RenderFindings {
    needs: Vec<Need>,
    secrets: Vec<String>,
}

impl RenderFindings {
    fn add_needs(&mut self, missing: Vec<Need>) {
        for need in missing {
            if !self.needs.contains(&need) {
                self.needs.push(need);
            }
        }
    }
}

impl Piece {
    /// The size for the budget.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Text(text)
            | Self::Raw(text)
            | Self::Value(Value::String(text))
            | Self::Ident(Value::String(text)) => text.len(),
            Self::Value(_) | Self::Ident(_) => ITEM_BYTES,
        }
    }
}
