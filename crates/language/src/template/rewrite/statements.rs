//! Rewrites statements and collects what they read.

use std::collections::BTreeSet;

use minijinja::Value as Native;
use minijinja::machinery::ast::{self, Expr, Spanned, Stmt};

use super::spans::{PathUse, byte_range, constant, emit, span_of, syntax_error_at};
use crate::template::operators::{AuthorText, ExpressionMarker};
use crate::template::tree::SyntaxError;

/// How an expression's value is used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueUse {
    /// Unchanged: one of its attributes is read, or it is compared.
    Raw,
    /// As a whole; it may be missing.
    Optional,
    /// As a whole; it must be defined.
    Required,
}

/// Rewrites one template and records what it reads.
#[derive(Default)]
pub(crate) struct Rewriter<'s> {
    pub(super) source: &'s str,
    pub(crate) roots: BTreeSet<&'s str>,
    pub(crate) uses: Vec<PathUse>,
    /// Whether a block captures text into a variable, which mixes the author's text with values.
    pub(crate) has_captures: bool,
    pub(super) bound_names: BTreeSet<&'s str>,
    pub(super) depth: usize,
}

pub(super) type RewriteResult<T> = Result<T, SyntaxError>;

impl<'s> Rewriter<'s> {
    /// Creates a rewriter for the template with this text.
    pub(crate) fn new(source: &'s str) -> Self {
        Self {
            source,
            ..Self::default()
        }
    }

    /// Rewrites a list of statements.
    pub(crate) fn rewrite_body(&mut self, statements: &[Stmt<'s>]) -> RewriteResult<Vec<Stmt<'s>>> {
        let mut rewritten = Vec::with_capacity(statements.len());
        for statement in statements {
            if let Stmt::EmitExpr(node) = statement {
                let marker = ExpressionMarker(byte_range(span_of(&node.expr)));
                let marker = constant(Native::from_object(marker), node.span());
                rewritten.push(emit(marker, node.span()));
            }
            rewritten.push(self.rewrite_statement(statement)?);
        }
        Ok(rewritten)
    }

    fn rewrite_statement(&mut self, statement: &Stmt<'s>) -> RewriteResult<Stmt<'s>> {
        Ok(match statement {
            Stmt::EmitRaw(raw) => {
                // A raw text is a slice of the source, so its position is known.
                let start = (raw.raw.as_ptr() as usize)
                    .checked_sub(self.source.as_ptr() as usize)
                    .filter(|start| start + raw.raw.len() <= self.source.len());
                let text = AuthorText {
                    text: raw.raw.into(),
                    start: start.unwrap_or(byte_range(raw.span()).start),
                };
                emit(constant(Native::from_object(text), raw.span()), raw.span())
            }
            Stmt::EmitExpr(node) => emit(self.rewrite_printed(&node.expr)?, node.span()),
            Stmt::Template(node) => {
                let children = self.rewrite_body(&node.children)?;
                Stmt::Template(Spanned::new(ast::Template { children }, node.span()))
            }
            Stmt::ForLoop(node) => self.rewrite_for_loop(node)?,
            Stmt::IfCond(node) => {
                let rewritten = ast::IfCond {
                    expr: self.rewrite_expression(&node.expr, ValueUse::Optional)?,
                    true_body: self.rewrite_body(&node.true_body)?,
                    false_body: self.rewrite_body(&node.false_body)?,
                };
                Stmt::IfCond(Spanned::new(rewritten, node.span()))
            }
            Stmt::WithBlock(node) => {
                let mut assignments = Vec::new();
                for (target, value) in &node.assignments {
                    let value = self.rewrite_stored(value)?;
                    assignments.push((self.rewrite_target(target)?, value));
                }
                let body = self.rewrite_body(&node.body)?;
                Stmt::WithBlock(Spanned::new(ast::WithBlock { assignments, body }, node.span()))
            }
            Stmt::Set(node) => {
                let expr = self.rewrite_stored(&node.expr)?;
                let target = self.rewrite_target(&node.target)?;
                Stmt::Set(Spanned::new(ast::Set { target, expr }, node.span()))
            }
            Stmt::SetBlock(node) => {
                self.has_captures = true;
                let rewritten = ast::SetBlock {
                    target: self.rewrite_target(&node.target)?,
                    filter: node
                        .filter
                        .as_ref()
                        .map(|filter| self.rewrite_expression(filter, ValueUse::Required))
                        .transpose()?,
                    body: self.rewrite_body(&node.body)?,
                };
                Stmt::SetBlock(Spanned::new(rewritten, node.span()))
            }
            Stmt::FilterBlock(node) => {
                self.has_captures = true;
                let rewritten = ast::FilterBlock {
                    filter: self.rewrite_expression(&node.filter, ValueUse::Required)?,
                    body: self.rewrite_body(&node.body)?,
                };
                Stmt::FilterBlock(Spanned::new(rewritten, node.span()))
            }
            other => return Err(refused_statement_error(other)),
        })
    }

    fn rewrite_for_loop(&mut self, node: &Spanned<ast::ForLoop<'s>>) -> RewriteResult<Stmt<'s>> {
        if node.recursive {
            return Err(syntax_error_at("recursive loops are not supported", node.span()));
        }
        let iter = self.rewrite_expression(&node.iter, ValueUse::Required)?;
        let target = self.rewrite_target(&node.target)?;
        self.bound_names.insert("loop");
        let rewritten = ast::ForLoop {
            target,
            iter,
            filter_expr: match &node.filter_expr {
                Some(filter) => Some(self.rewrite_expression(filter, ValueUse::Optional)?),
                None => None,
            },
            recursive: false,
            body: self.rewrite_body(&node.body)?,
            else_body: self.rewrite_body(&node.else_body)?,
        };
        Ok(Stmt::ForLoop(Spanned::new(rewritten, node.span())))
    }

    /// Rewrites the target of an assignment: names, lists of names, attributes of a namespace.
    fn rewrite_target(&mut self, target: &Expr<'s>) -> RewriteResult<Expr<'s>> {
        match target {
            Expr::Var(var) => {
                self.bound_names.insert(var.id);
                Ok(Expr::Var(Spanned::new(ast::Var { id: var.id }, var.span())))
            }
            Expr::Tuple(tuple) => {
                let items = tuple
                    .items
                    .iter()
                    .map(|item| self.rewrite_target(item))
                    .collect::<RewriteResult<_>>()?;
                Ok(Expr::Tuple(Spanned::new(ast::Tuple { items }, tuple.span())))
            }
            Expr::List(list) => {
                let items = list
                    .items
                    .iter()
                    .map(|item| self.rewrite_target(item))
                    .collect::<RewriteResult<_>>()?;
                Ok(Expr::List(Spanned::new(ast::List { items }, list.span())))
            }
            other => self.rewrite_expression(other, ValueUse::Raw),
        }
    }
}

fn refused_statement_error(statement: &Stmt<'_>) -> SyntaxError {
    let (keyword, span) = match statement {
        Stmt::Block(node) => ("block", node.span()),
        Stmt::Extends(node) => ("extends", node.span()),
        Stmt::Include(node) => ("include", node.span()),
        Stmt::Import(node) => ("import", node.span()),
        Stmt::FromImport(node) => ("from", node.span()),
        Stmt::Macro(node) => ("macro", node.span()),
        Stmt::CallBlock(node) => ("call", node.call.span()),
        Stmt::Do(node) => ("do", node.span()),
        Stmt::AutoEscape(node) => ("autoescape", node.span()),
        _ => {
            return SyntaxError {
                message: "this statement is not supported".to_owned(),
                range: None,
            };
        }
    };
    syntax_error_at(&format!("`{{% {keyword} %}}` is not supported"), span)
}
