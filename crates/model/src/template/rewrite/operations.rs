//! Operations: calls, filters, tests and operators.

use minijinja::Value as Native;
use minijinja::machinery::ast::{self, BinOpKind, CallArg, CompareOpKind, Expr, Spanned};

use super::place::{apply, constant, error, extent, range};
use super::statements::{Done, Rewriter, Taken};
use crate::template::environment;
use crate::template::weigh;

impl<'s> Rewriter<'s> {
    pub(super) fn call(&mut self, node: &Spanned<ast::Call<'s>>) -> Done<Expr<'s>> {
        let expr = match &node.expr {
            Expr::Var(var) => {
                environment::check_function(var.id, range(var.span()))?;
                Expr::Var(Spanned::new(ast::Var { id: var.id }, var.span()))
            }
            Expr::GetAttr(attr) => {
                let rewritten = ast::GetAttr {
                    expr: self.weighed(&attr.expr, Taken::Used, weigh::for_method(attr.name).0)?,
                    name: attr.name,
                };
                Expr::GetAttr(Spanned::new(rewritten, attr.span()))
            }
            other => {
                return Err(error(
                    "only functions and methods can be called",
                    other.span(),
                ));
            }
        };
        let scale = match &node.expr {
            Expr::GetAttr(attr) => weigh::for_method(attr.name).1,
            _ => None,
        };
        let args = self.arguments(&node.args, Taken::Used, scale)?;
        Ok(Expr::Call(Spanned::new(
            ast::Call { expr, args },
            node.span(),
        )))
    }

    fn arguments(
        &mut self,
        args: &[CallArg<'s>],
        taken: Taken,
        scale: Option<&'static str>,
    ) -> Done<Vec<CallArg<'s>>> {
        let mut rewritten = Vec::with_capacity(args.len());
        for arg in args {
            rewritten.push(match arg {
                CallArg::Pos(value) => CallArg::Pos(self.weighed(value, taken, scale)?),
                CallArg::Kwarg(name, value) => {
                    CallArg::Kwarg(name, self.weighed(value, taken, scale)?)
                }
                CallArg::PosSplat(value) => CallArg::PosSplat(self.spread(value, taken, scale)?),
                CallArg::KwargSplat(value) => {
                    CallArg::KwargSplat(self.spread(value, taken, scale)?)
                }
            });
        }
        Ok(rewritten)
    }

    /// A list or map of arguments, which the call copies.
    fn spread(
        &mut self,
        value: &Expr<'s>,
        taken: Taken,
        scale: Option<&'static str>,
    ) -> Done<Expr<'s>> {
        let inner = self.weighed(value, taken, scale)?;
        Ok(apply("%spread", inner, vec![], extent(value)))
    }

    /// A value that is weighed before something reads it.
    fn weighed(
        &mut self,
        value: &Expr<'s>,
        taken: Taken,
        scale: Option<&'static str>,
    ) -> Done<Expr<'s>> {
        let inner = self.expression(value, taken)?;
        Ok(match (value, scale) {
            (Expr::Const(_), _) | (_, None) => inner,
            (_, Some(scale)) => apply(scale, inner, vec![], extent(value)),
        })
    }

    pub(super) fn filter(
        &mut self,
        node: &Spanned<ast::Filter<'s>>,
        taken: Taken,
    ) -> Done<Expr<'s>> {
        let at = node.span();
        environment::check_filter(node.name, range(at))?;
        let may_be_missing = matches!(node.name, "default" | "d");
        let subject = if may_be_missing {
            Taken::Maybe
        } else {
            Taken::Used
        };
        let (of_subject, of_arguments) = weigh::for_filter(node.name);
        let rewritten = ast::Filter {
            name: node.name,
            expr: match &node.expr {
                Some(expr) => Some(self.weighed(expr, subject, of_subject)?),
                None => None,
            },
            args: self.arguments(&node.args, subject, of_arguments)?,
        };
        let inner = Expr::Filter(Spanned::new(rewritten, at));
        Ok(self.take(apply("%built", inner, vec![], at), at, taken))
    }

    pub(super) fn test(&mut self, node: &Spanned<ast::Test<'s>>) -> Done<Expr<'s>> {
        environment::check_test(node.name, range(node.span()))?;
        let taken = match node.name {
            "none" | "string" | "number" | "mapping" | "sequence" | "iterable" | "boolean"
            | "true" | "false" | "integer" | "int" | "float" => Taken::Maybe,
            "defined" | "undefined" | "eq" | "ne" | "equalto" | "==" | "!=" | "in" => Taken::Raw,
            _ => Taken::Used,
        };
        let rewritten = ast::Test {
            name: node.name,
            expr: self.weighed(&node.expr, taken, weigh::for_test(node.name))?,
            args: self.arguments(&node.args, taken, weigh::for_test(node.name))?,
        };
        Ok(Expr::Test(Spanned::new(rewritten, node.span())))
    }

    pub(super) fn binary(
        &mut self,
        node: &Spanned<ast::BinOp<'s>>,
        taken: Taken,
    ) -> Done<Expr<'s>> {
        let at = node.span();
        let operands = match node.op {
            BinOpKind::ScAnd | BinOpKind::ScOr => Taken::Maybe,
            BinOpKind::Eq
            | BinOpKind::Ne
            | BinOpKind::Lt
            | BinOpKind::Lte
            | BinOpKind::Gt
            | BinOpKind::Gte
            | BinOpKind::In => Taken::Raw,
            _ => Taken::Used,
        };
        let left = self.expression(&node.left, operands)?;
        let right = self.expression(&node.right, operands)?;
        let ours = match node.op {
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
                let inner = Expr::BinOp(Spanned::new(ast::BinOp { op, left, right }, at));
                return Ok(if operands == Taken::Maybe {
                    self.take(inner, at, taken)
                } else {
                    inner
                });
            }
        };
        Ok(apply(ours, left, vec![right], at))
    }

    /// `a < b < c` is `a < b and b < c`: expressions have no effects, so `b` may be read twice.
    pub(super) fn chain(&mut self, node: &Spanned<ast::Compare<'s>>) -> Done<Expr<'s>> {
        let at = node.span();
        let mut left = &node.expr;
        let mut all: Option<Expr<'s>> = None;
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
                self.expression(left, Taken::Raw)?,
                self.expression(&link.expr, Taken::Raw)?,
            );
            let one = apply(name, pair.0, vec![pair.1], at);
            all = Some(match all {
                None => one,
                Some(before) => {
                    let op = BinOpKind::ScAnd;
                    Expr::BinOp(Spanned::new(
                        ast::BinOp {
                            op,
                            left: before,
                            right: one,
                        },
                        at,
                    ))
                }
            });
            left = &link.expr;
        }
        Ok(all.unwrap_or_else(|| constant(Native::from(true), at)))
    }
}
