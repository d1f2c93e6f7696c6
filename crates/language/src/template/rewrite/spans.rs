//! Spans and paths of expressions.

use std::ops::Range;

use minijinja::Value as Native;
use minijinja::machinery::Span;
use minijinja::machinery::ast::{self, CallArg, Expr, Spanned, Stmt};

use crate::template::tree::SyntaxError;

/// A dotted path that a template reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathUse {
    /// The path: `iter.page`.
    pub path: String,
    /// The byte range in the template's own text.
    pub range: Range<usize>,
    /// Whether the value may be missing there: under `default`, `is defined`, a comparison or a condition.
    pub guarded: bool,
}

/// Returns the full span of an expression; the library's span starts at the last attribute or operator.
pub(super) fn span_of(expr: &Expr<'_>) -> Span {
    let first = match expr {
        Expr::GetAttr(node) => span_of(&node.expr),
        Expr::GetItem(node) => span_of(&node.expr),
        Expr::Slice(node) => span_of(&node.expr),
        Expr::Call(node) => span_of(&node.expr),
        Expr::BinOp(node) => span_of(&node.left),
        Expr::Compare(node) => span_of(&node.expr),
        Expr::Test(node) => span_of(&node.expr),
        Expr::Filter(node) => match &node.expr {
            Some(inner) => span_of(inner),
            None => return expr.span(),
        },
        other => return other.span(),
    };
    let last = expr.span();
    if first.start_offset > last.start_offset {
        return last;
    }
    Span {
        start_line: first.start_line,
        start_col: first.start_col,
        start_offset: first.start_offset,
        ..last
    }
}

/// Returns the dotted path that an expression reads, up to the first part that is computed.
pub(super) fn path_of(expr: &Expr<'_>) -> Option<String> {
    match expr {
        Expr::Var(node) => Some(node.id.to_owned()),
        Expr::GetAttr(node) => Some(format!("{}.{}", path_of(&node.expr)?, node.name)),
        Expr::GetItem(node) => {
            let base = path_of(&node.expr)?;
            match &node.subscript_expr {
                Expr::Const(key) => Some(match key.value.as_str() {
                    Some(name) => format!("{base}.{name}"),
                    None => format!("{base}[{}]", key.value),
                }),
                _ => Some(base),
            }
        }
        _ => None,
    }
}

pub(super) fn apply_filter<'s>(name: &'static str, value: Expr<'s>, arguments: Vec<Expr<'s>>, span: Span) -> Expr<'s> {
    let args = arguments.into_iter().map(CallArg::Pos).collect();
    Expr::Filter(Spanned::new(
        ast::Filter {
            name,
            expr: Some(value),
            args,
        },
        span,
    ))
}

pub(super) fn constant<'s>(value: Native, span: Span) -> Expr<'s> {
    Expr::Const(Spanned::new(ast::Const { value }, span))
}

pub(super) fn emit(expr: Expr<'_>, span: Span) -> Stmt<'_> {
    Stmt::EmitExpr(Spanned::new(ast::EmitExpr { expr }, span))
}

pub(crate) fn byte_range(span: Span) -> Range<usize> {
    span.start_offset as usize..span.end_offset as usize
}

pub(super) fn syntax_error_at(message: &str, span: Span) -> SyntaxError {
    SyntaxError {
        message: message.to_owned(),
        range: Some(byte_range(span)),
    }
}
