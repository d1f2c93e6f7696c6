//! Rewrites expressions: names, the paths that are read from them, and how their values are used.

use minijinja::Value as Native;
use minijinja::machinery::Span;
use minijinja::machinery::ast::{self, Expr, Spanned};

use super::spans::{PathUse, apply_filter, byte_range, constant, path_of, span_of, syntax_error_at};
use super::statements::{RewriteResult, Rewriter, ValueUse};
use crate::template::budget::EXPRESSION_DEPTH_MAX;

impl<'s> Rewriter<'s> {
    /// Rewrites an expression whose value is printed or is the whole result.
    pub(crate) fn rewrite_printed(&mut self, expr: &Expr<'s>) -> RewriteResult<Expr<'s>> {
        let Expr::IfExpr(node) = expr else {
            return self.rewrite_expression(expr, ValueUse::Required);
        };
        // `{{ 'x' if y }}` prints nothing where `y` is false, as in Jinja2.
        let rewritten = ast::IfExpr {
            test_expr: self.rewrite_expression(&node.test_expr, ValueUse::Optional)?,
            true_expr: self.rewrite_printed(&node.true_expr)?,
            false_expr: Some(match &node.false_expr {
                Some(other) => self.rewrite_printed(other)?,
                None => constant(Native::from(""), node.span()),
            }),
        };
        Ok(Expr::IfExpr(Spanned::new(rewritten, node.span())))
    }

    /// Rewrites an expression.
    pub(crate) fn rewrite_expression(&mut self, expr: &Expr<'s>, value_use: ValueUse) -> RewriteResult<Expr<'s>> {
        self.check_depth(expr.span())?;
        let rewritten = self.rewrite_by_kind(expr, value_use);
        self.depth -= 1;
        rewritten
    }

    pub(super) fn check_depth(&mut self, span: Span) -> RewriteResult<()> {
        self.depth += 1;
        if self.depth > EXPRESSION_DEPTH_MAX {
            return Err(syntax_error_at("the expression is nested too deeply", span));
        }
        Ok(())
    }

    pub(super) fn rewrite_by_kind(&mut self, expr: &Expr<'s>, value_use: ValueUse) -> RewriteResult<Expr<'s>> {
        let span = span_of(expr);
        Ok(match expr {
            Expr::Var(_) | Expr::GetAttr(_) | Expr::GetItem(_) => {
                self.record_path(expr, value_use != ValueUse::Required);
                let inner = self.rewrite_access(expr)?;
                self.wrap_use(inner, span, value_use)
            }
            Expr::Call(node) => {
                let inner = self.rewrite_call(node)?;
                self.wrap_use(inner, span, value_use)
            }
            Expr::Const(node) => constant(node.value.clone(), span),
            Expr::Slice(node) => self.rewrite_slice(node)?,
            Expr::UnaryOp(node) => {
                let (op, value_use) = match node.op {
                    ast::UnaryOpKind::Not => (ast::UnaryOpKind::Not, ValueUse::Optional),
                    ast::UnaryOpKind::Neg => (ast::UnaryOpKind::Neg, ValueUse::Required),
                };
                let expr = self.rewrite_expression(&node.expr, value_use)?;
                Expr::UnaryOp(Spanned::new(ast::UnaryOp { op, expr }, span))
            }
            Expr::BinOp(node) => self.rewrite_binary(node, value_use)?,
            Expr::Compare(node) => self.rewrite_comparison(node)?,
            Expr::IfExpr(node) => {
                let rewritten = ast::IfExpr {
                    test_expr: self.rewrite_expression(&node.test_expr, ValueUse::Optional)?,
                    true_expr: self.rewrite_expression(&node.true_expr, value_use)?,
                    false_expr: match &node.false_expr {
                        Some(other) => Some(self.rewrite_expression(other, value_use)?),
                        None => None,
                    },
                };
                let inner = Expr::IfExpr(Spanned::new(rewritten, span));
                if node.false_expr.is_none() {
                    self.wrap_use(inner, span, value_use)
                } else {
                    inner
                }
            }
            Expr::Filter(node) => self.rewrite_filter(node, value_use)?,
            Expr::Test(node) => self.rewrite_test(node)?,
            Expr::List(node) => {
                let items = self.rewrite_all(&node.items)?;
                Expr::List(Spanned::new(ast::List { items }, span))
            }
            Expr::Tuple(node) => {
                let items = self.rewrite_all(&node.items)?;
                Expr::Tuple(Spanned::new(ast::Tuple { items }, span))
            }
            Expr::Map(node) => {
                let keys = node
                    .keys
                    .iter()
                    .map(|key| self.rewrite_key(key))
                    .collect::<RewriteResult<_>>()?;
                let values = self.rewrite_all(&node.values)?;
                Expr::Map(Spanned::new(ast::Map { keys, values }, span))
            }
        })
    }

    fn rewrite_slice(&mut self, node: &Spanned<ast::Slice<'s>>) -> RewriteResult<Expr<'s>> {
        let span = node.span();
        let subject = self.rewrite_expression(&node.expr, ValueUse::Required)?;
        let mut parts = Vec::with_capacity(3);
        for part in [&node.start, &node.stop, &node.step] {
            parts.push(match part {
                Some(part) => self.rewrite_expression(part, ValueUse::Required)?,
                None => constant(Native::from(()), span),
            });
        }
        Ok(apply_filter("%slice", subject, parts, span))
    }

    pub(super) fn rewrite_key(&mut self, expr: &Expr<'s>) -> RewriteResult<Expr<'s>> {
        let inner = self.rewrite_expression(expr, ValueUse::Required)?;
        Ok(match expr {
            Expr::Const(_) => inner,
            _ => apply_filter("%key", inner, vec![], span_of(expr)),
        })
    }

    /// Rewrites the value of an assignment.
    pub(super) fn rewrite_stored(&mut self, expr: &Expr<'s>) -> RewriteResult<Expr<'s>> {
        let inner = self.rewrite_expression(expr, ValueUse::Raw)?;
        Ok(match expr {
            Expr::Const(_) | Expr::Var(_) | Expr::GetAttr(_) | Expr::GetItem(_) => inner,
            _ => apply_filter("%stored", inner, vec![], span_of(expr)),
        })
    }

    pub(super) fn rewrite_all(&mut self, items: &[Expr<'s>]) -> RewriteResult<Vec<Expr<'s>>> {
        items
            .iter()
            .map(|item| self.rewrite_expression(item, ValueUse::Required))
            .collect()
    }

    /// Rewrites a name and the attributes and items that are read from it.
    pub(super) fn rewrite_access(&mut self, expr: &Expr<'s>) -> RewriteResult<Expr<'s>> {
        self.check_depth(expr.span())?;
        let rewritten = match expr {
            Expr::Var(node) => {
                // After a loop, a name that the loop bound refers to the scope again, so every name is resolved.
                self.roots.insert(node.id);
                Expr::Var(Spanned::new(ast::Var { id: node.id }, node.span()))
            }
            Expr::GetAttr(node) => {
                let rewritten = ast::GetAttr {
                    expr: self.rewrite_access(&node.expr)?,
                    name: node.name,
                };
                Expr::GetAttr(Spanned::new(rewritten, node.span()))
            }
            Expr::GetItem(node) => {
                let mut subject = self.rewrite_access(&node.expr)?;
                // Finding a character by its index reads the text from its start.
                if !matches!(&node.subscript_expr, Expr::Const(key) if key.value.as_str().is_some()) {
                    subject = apply_filter("%scan", subject, vec![], span_of(&node.expr));
                }
                let rewritten = ast::GetItem {
                    expr: subject,
                    subscript_expr: self.rewrite_key(&node.subscript_expr)?,
                };
                Expr::GetItem(Spanned::new(rewritten, node.span()))
            }
            other => self.rewrite_expression(other, ValueUse::Raw)?,
        };
        self.depth -= 1;
        Ok(rewritten)
    }

    /// Wraps a value in the check that its use requires.
    pub(super) fn wrap_use(&self, inner: Expr<'s>, span: Span, value_use: ValueUse) -> Expr<'s> {
        match value_use {
            ValueUse::Raw => inner,
            ValueUse::Optional => apply_filter("%maybe", inner, vec![], span),
            ValueUse::Required => {
                let text = constant(Native::from(self.source_text(span)), span);
                apply_filter("%used", inner, vec![text], span)
            }
        }
    }

    pub(super) fn record_path(&mut self, expr: &Expr<'s>, guarded: bool) {
        let Some(path) = path_of(expr) else { return };
        let root = path.split(['.', '[']).next().unwrap_or_default();
        if !self.bound_names.contains(root) {
            self.uses.push(PathUse {
                path,
                range: byte_range(span_of(expr)),
                guarded,
            });
        }
    }

    pub(super) fn source_text(&self, span: Span) -> &'s str {
        self.source.get(byte_range(span)).unwrap_or_default()
    }
}
