//! Templates in their places: single scalars and the trees of lists and maps that hold them.

use serde_json::Value;

use crate::source::Span;
use crate::template::scope::{Need, Scope};

/// A compiled template. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Template {
    source: std::sync::Arc<str>,
    span: Span,
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

/// What a template came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    /// The value, with its native type.
    pub value: Value,
    /// Whether a secret took part in it: it may go into a tool's call and nowhere else.
    pub tainted: bool,
}

/// A part of a rendered text: what the author wrote, or what a template put in.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// The author's text.
    Text(String),
    /// A value, to be quoted or bound by its place.
    Value(Value),
    /// A value the author marked as an identifier, `| ident`.
    Ident(Value),
    /// A value the author marked as text of the language itself, `| raw_sql` or `| raw_sh`.
    Raw(String),
}

/// A template that does not parse.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// What is wrong.
    pub message: String,
    /// Where, in bytes of the template's own text.
    pub range: Option<std::ops::Range<usize>>,
}

/// A template that could not be rendered.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RenderError {
    /// Something has to be loaded first; load it and render again.
    #[error("a body must be loaded first")]
    Needs(Vec<Need>),
    /// It cannot be rendered, now or ever.
    #[error("{message}")]
    Failed {
        /// `TEMPLATE_UNDEFINED`, `TEMPLATE_ERROR`, `TEMPLATE_LIMIT` or `BODY_TOO_LARGE`.
        code: &'static str,
        /// What is wrong, naming the expression.
        message: String,
        /// Where it stands in the playbook.
        span: Span,
    },
}

impl Template {
    /// Reads a template scalar that stands at `span`.
    pub fn parse(_source: &str, _span: Span) -> Result<Self, SyntaxError> {
        unimplemented!()
    }

    /// Reads a condition: an expression, with or without braces around it.
    pub fn condition(_source: &str, _span: Span) -> Result<Self, SyntaxError> {
        unimplemented!()
    }

    /// The text as written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Where it stands in the playbook.
    pub fn span(&self) -> Span {
        self.span
    }

    /// The dotted paths it reads: `iter.page`, `outcome.http.status`.
    pub fn paths(&self) -> &[String] {
        unimplemented!()
    }

    /// Renders it to a value.
    pub fn render(&self, _scope: &Scope) -> Result<Rendered, RenderError> {
        unimplemented!()
    }

    /// Renders it as a condition.
    pub fn is_true(&self, _scope: &Scope) -> Result<bool, RenderError> {
        unimplemented!()
    }

    /// Renders it to the author's text and the values between, for languages that quote or bind by place.
    pub fn pieces(&self, _scope: &Scope) -> Result<Vec<Piece>, RenderError> {
        unimplemented!()
    }
}

impl Tree {
    /// Renders every template inside; tainted if any was.
    pub fn render(&self, _scope: &Scope) -> Result<Rendered, RenderError> {
        unimplemented!()
    }
}
