//! Operations: calls, filters, tests and operators.

use minijinja::Value as Native;
use minijinja::machinery::ast::{self, BinOpKind, CallArg, CompareOpKind, Expr, Spanned};

use super::spans::{apply_filter, byte_range, constant, span_of, syntax_error_at};
use super::statements::{RewriteResult, Rewriter, ValueUse};
use crate::template::charges;
use crate::template::environment;

impl<'s> Rewriter<'s> {
    pub(super) fn rewrite_call(&mut self, node: &Spanned<ast::Call<'s>>) -> RewriteResult<Expr<'s>> {
        let expr = match &node.expr {
            Expr::Var(var) => {
                environment::check_function(var.id, byte_range(var.span()))?;
                Expr::Var(Spanned::new(ast::Var { id: var.id }, var.span()))
            }
            Expr::GetAttr(attr) => {
                let rewritten = ast::GetAttr {
                    expr: self.rewrite_charged(&attr.expr, ValueUse::Required, charges::for_method(attr.name).0)?,
                    name: attr.name,
                };
                Expr::GetAttr(Spanned::new(rewritten, attr.span()))
            }
            other => {
                return Err(syntax_error_at(
                    "only functions and methods can be called",
                    other.span(),
                ));
            }
        };
        let charge = match &node.expr {
            Expr::GetAttr(attr) => charges::for_method(attr.name).1,
            _ => None,
        };
        let args = self.rewrite_arguments(&node.args, ValueUse::Required, charge)?;
        Ok(Expr::Call(Spanned::new(ast::Call { expr, args }, node.span())))
    }

    fn rewrite_arguments(
        &mut self,
        args: &[CallArg<'s>],
        value_use: ValueUse,
        charge: Option<&'static str>,
    ) -> RewriteResult<Vec<CallArg<'s>>> {
        let mut rewritten = Vec::with_capacity(args.len());
        for arg in args {
            rewritten.push(match arg {
                CallArg::Pos(value) => CallArg::Pos(self.rewrite_charged(value, value_use, charge)?),
                CallArg::Kwarg(name, value) => CallArg::Kwarg(name, self.rewrite_charged(value, value_use, charge)?),
                CallArg::PosSplat(value) => CallArg::PosSplat(self.spread(value, value_use, charge)?),
                CallArg::KwargSplat(value) => CallArg::KwargSplat(self.spread(value, value_use, charge)?),
            });
        }
        Ok(rewritten)
    }

    /// Rewrites a list or map of arguments, which the call copies.
    fn spread(
        &mut self,
        value: &Expr<'s>,
        value_use: ValueUse,
        charge: Option<&'static str>,
    ) -> RewriteResult<Expr<'s>> {
        let inner = self.rewrite_charged(value, value_use, charge)?;
        Ok(apply_filter("%spread", inner, vec![], span_of(value)))
    }

    /// Rewrites a value that is charged, with the filter `charge`, before it is read.
    fn rewrite_charged(
        &mut self,
        value: &Expr<'s>,
        value_use: ValueUse,
        charge: Option<&'static str>,
    ) -> RewriteResult<Expr<'s>> {
        let inner = self.rewrite_expression(value, value_use)?;
        Ok(match (value, charge) {
            (Expr::Const(_), _) | (_, None) => inner,
            (_, Some(charge)) => apply_filter(charge, inner, vec![], span_of(value)),
        })
    }

    pub(super) fn rewrite_filter(
        &mut self,
        node: &Spanned<ast::Filter<'s>>,
        value_use: ValueUse,
    ) -> RewriteResult<Expr<'s>> {
        let span = node.span();
        environment::check_filter(node.name, byte_range(span))?;
        let may_be_missing = matches!(node.name, "default" | "d");
        let subject = if may_be_missing {
            ValueUse::Optional
        } else {
            ValueUse::Required
        };
        let (subject_charge, argument_charge) = charges::for_filter(node.name);
        let rewritten = ast::Filter {
            name: node.name,
            expr: match &node.expr {
                Some(expr) => Some(self.rewrite_charged(expr, subject, subject_charge)?),
                None => None,
            },
            args: self.rewrite_arguments(&node.args, subject, argument_charge)?,
        };
        let inner = Expr::Filter(Spanned::new(rewritten, span));
        Ok(self.wrap_use(apply_filter("%built", inner, vec![], span), span, value_use))
    }

    pub(super) fn rewrite_test(&mut self, node: &Spanned<ast::Test<'s>>) -> RewriteResult<Expr<'s>> {
        environment::check_test(node.name, byte_range(node.span()))?;
        let value_use = match node.name {
            "none" | "string" | "number" | "mapping" | "sequence" | "iterable" | "boolean" | "true" | "false"
            | "integer" | "int" | "float" => ValueUse::Optional,
            "defined" | "undefined" | "eq" | "ne" | "equalto" | "==" | "!=" | "in" => ValueUse::Raw,
            _ => ValueUse::Required,
        };
        let rewritten = ast::Test {
            name: node.name,
            expr: self.rewrite_charged(&node.expr, value_use, charges::for_test(node.name))?,
            args: self.rewrite_arguments(&node.args, value_use, charges::for_test(node.name))?,
        };
        Ok(Expr::Test(Spanned::new(rewritten, node.span())))
    }

    pub(super) fn rewrite_binary(
        &mut self,
        node: &Spanned<ast::BinOp<'s>>,
        value_use: ValueUse,
    ) -> RewriteResult<Expr<'s>> {
        let span = node.span();
        let operands = match node.op {
            BinOpKind::ScAnd | BinOpKind::ScOr => ValueUse::Optional,
            BinOpKind::Eq
            | BinOpKind::Ne
            | BinOpKind::Lt
            | BinOpKind::Lte
            | BinOpKind::Gt
            | BinOpKind::Gte
            | BinOpKind::In => ValueUse::Raw,
            _ => ValueUse::Required,
        };
        let left = self.rewrite_expression(&node.left, operands)?;
        let right = self.rewrite_expression(&node.right, operands)?;
        let filter = match node.op {
            BinOpKind::Eq => "%eq",
            BinOpKind::Ne => "%ne",
            BinOpKind::Lt => "%lt",
            BinOpKind::Lte => "%le",
            BinOpKind::Gt => "%gt",
            BinOpKind::Gte => "%ge",
            BinOpKind::In => "%in",
            BinOpKind::Add => "%add",
            BinOpKind::Mul => "%mul",
            BinOpKind::Concat => "%concat",
            op => {
                let inner = Expr::BinOp(Spanned::new(ast::BinOp { op, left, right }, span));
                return Ok(if operands == ValueUse::Optional {
                    self.wrap_use(inner, span, value_use)
                } else {
                    inner
                });
            }
        };
        Ok(apply_filter(filter, left, vec![right], span))
    }

    /// `a < b < c` is `a < b and b < c`: expressions have no effects, so `b` may be read twice.
    pub(super) fn rewrite_comparison(&mut self, node: &Spanned<ast::Compare<'s>>) -> RewriteResult<Expr<'s>> {
        let span = node.span();
        let mut left = &node.expr;
        let mut conjunction: Option<Expr<'s>> = None;
        for link in &node.ops {
            let name = match link.op {
                CompareOpKind::Eq => "%eq",
                CompareOpKind::Ne => "%ne",
                CompareOpKind::Lt => "%lt",
                CompareOpKind::Lte => "%le",
                CompareOpKind::Gt => "%gt",
                CompareOpKind::Gte => "%ge",
                CompareOpKind::In => "%in",
                CompareOpKind::NotIn => "%notin",
            };
            let pair = (
                self.rewrite_expression(left, ValueUse::Raw)?,
                self.rewrite_expression(&link.expr, ValueUse::Raw)?,
            );
            let comparison = apply_filter(name, pair.0, vec![pair.1], span);
            conjunction = Some(match conjunction {
                None => comparison,
                Some(before) => {
                    let op = BinOpKind::ScAnd;
                    Expr::BinOp(Spanned::new(
                        ast::BinOp {
                            op,
                            left: before,
                            right: comparison,
                        },
                        span,
                    ))
                }
            });
            left = &link.expr;
        }
        Ok(conjunction.unwrap_or_else(|| constant(Native::from(true), span)))
    }
}
