//! Expressions: names, what is read from them, and how their values are taken.

use minijinja::Value as Native;
use minijinja::machinery::Span as Place;
use minijinja::machinery::ast::{self, Expr, Spanned};

use super::place::{PathUse, apply, constant, error, extent, path, range};
use super::statements::{Done, Rewriter, Taken};
use crate::template::budget::EXPRESSION_DEPTH_MAX;

impl<'s> Rewriter<'s> {
    /// An expression whose value is printed, or is the whole result.
    pub(crate) fn printed(&mut self, expr: &Expr<'s>) -> Done<Expr<'s>> {
        let Expr::IfExpr(node) = expr else {
            return self.expression(expr, Taken::Used);
        };
        // `{{ 'x' if y }}` prints nothing where `y` is false, as in Jinja2.
        let rewritten = ast::IfExpr {
            test_expr: self.expression(&node.test_expr, Taken::Maybe)?,
            true_expr: self.printed(&node.true_expr)?,
            false_expr: Some(match &node.false_expr {
                Some(other) => self.printed(other)?,
                None => constant(Native::from(""), node.span()),
            }),
        };
        Ok(Expr::IfExpr(Spanned::new(rewritten, node.span())))
    }

    /// An expression.
    pub(crate) fn expression(&mut self, expr: &Expr<'s>, taken: Taken) -> Done<Expr<'s>> {
        self.deeper(expr.span())?;
        let rewritten = self.shallow(expr, taken);
        self.depth -= 1;
        rewritten
    }

    pub(super) fn deeper(&mut self, at: Place) -> Done<()> {
        self.depth += 1;
        if self.depth > EXPRESSION_DEPTH_MAX {
            return Err(error("the expression is nested too deeply", at));
        }
        Ok(())
    }

    pub(super) fn shallow(&mut self, expr: &Expr<'s>, taken: Taken) -> Done<Expr<'s>> {
        let at = extent(expr);
        Ok(match expr {
            Expr::Var(_) | Expr::GetAttr(_) | Expr::GetItem(_) => {
                self.note(expr, taken != Taken::Used);
                let inner = self.access(expr)?;
                self.take(inner, at, taken)
            }
            Expr::Call(node) => {
                let inner = self.call(node)?;
                self.take(inner, at, taken)
            }
            Expr::Const(node) => constant(node.value.clone(), at),
            Expr::Slice(node) => self.slice(node)?,
            Expr::UnaryOp(node) => {
                let (op, taken) = match node.op {
                    ast::UnaryOpKind::Not => (ast::UnaryOpKind::Not, Taken::Maybe),
                    ast::UnaryOpKind::Neg => (ast::UnaryOpKind::Neg, Taken::Used),
                };
                let expr = self.expression(&node.expr, taken)?;
                Expr::UnaryOp(Spanned::new(ast::UnaryOp { op, expr }, at))
            }
            Expr::BinOp(node) => self.binary(node, taken)?,
            Expr::Compare(node) => self.chain(node)?,
            Expr::IfExpr(node) => {
                let rewritten = ast::IfExpr {
                    test_expr: self.expression(&node.test_expr, Taken::Maybe)?,
                    true_expr: self.expression(&node.true_expr, taken)?,
                    false_expr: match &node.false_expr {
                        Some(other) => Some(self.expression(other, taken)?),
                        None => None,
                    },
                };
                let inner = Expr::IfExpr(Spanned::new(rewritten, at));
                if node.false_expr.is_none() {
                    self.take(inner, at, taken)
                } else {
                    inner
                }
            }
            Expr::Filter(node) => self.filter(node, taken)?,
            Expr::Test(node) => self.test(node)?,
            Expr::List(node) => {
                let items = self.all(&node.items)?;
                Expr::List(Spanned::new(ast::List { items }, at))
            }
            Expr::Tuple(node) => {
                let items = self.all(&node.items)?;
                Expr::Tuple(Spanned::new(ast::Tuple { items }, at))
            }
            Expr::Map(node) => {
                let keys = node
                    .keys
                    .iter()
                    .map(|key| self.key(key))
                    .collect::<Done<_>>()?;
                let values = self.all(&node.values)?;
                Expr::Map(Spanned::new(ast::Map { keys, values }, at))
            }
        })
    }

    fn slice(&mut self, node: &Spanned<ast::Slice<'s>>) -> Done<Expr<'s>> {
        let at = node.span();
        let subject = self.expression(&node.expr, Taken::Used)?;
        let mut parts = Vec::with_capacity(3);
        for part in [&node.start, &node.stop, &node.step] {
            parts.push(match part {
                Some(part) => self.expression(part, Taken::Used)?,
                None => constant(Native::from(()), at),
            });
        }
        Ok(apply("%slice", subject, parts, at))
    }

    pub(super) fn key(&mut self, expr: &Expr<'s>) -> Done<Expr<'s>> {
        let inner = self.expression(expr, Taken::Used)?;
        Ok(match expr {
            Expr::Const(_) => inner,
            _ => apply("%key", inner, vec![], extent(expr)),
        })
    }

    /// A value that a variable keeps.
    pub(super) fn kept(&mut self, expr: &Expr<'s>) -> Done<Expr<'s>> {
        let inner = self.expression(expr, Taken::Raw)?;
        Ok(match expr {
            Expr::Const(_) | Expr::Var(_) | Expr::GetAttr(_) | Expr::GetItem(_) => inner,
            _ => apply("%kept", inner, vec![], extent(expr)),
        })
    }

    pub(super) fn all(&mut self, items: &[Expr<'s>]) -> Done<Vec<Expr<'s>>> {
        items
            .iter()
            .map(|item| self.expression(item, Taken::Used))
            .collect()
    }

    /// A name, or what is read from one.
    pub(super) fn access(&mut self, expr: &Expr<'s>) -> Done<Expr<'s>> {
        self.deeper(expr.span())?;
        let rewritten = match expr {
            Expr::Var(node) => {
                // A name bound by a loop is the scope's again behind it, so each is looked up.
                self.roots.insert(node.id);
                Expr::Var(Spanned::new(ast::Var { id: node.id }, node.span()))
            }
            Expr::GetAttr(node) => {
                let rewritten = ast::GetAttr {
                    expr: self.access(&node.expr)?,
                    name: node.name,
                };
                Expr::GetAttr(Spanned::new(rewritten, node.span()))
            }
            Expr::GetItem(node) => {
                let mut subject = self.access(&node.expr)?;
                // A text is read from its start to find one of its characters.
                if !matches!(&node.subscript_expr, Expr::Const(key) if key.value.as_str().is_some())
                {
                    subject = apply("%scan", subject, vec![], extent(&node.expr));
                }
                let rewritten = ast::GetItem {
                    expr: subject,
                    subscript_expr: self.key(&node.subscript_expr)?,
                };
                Expr::GetItem(Spanned::new(rewritten, node.span()))
            }
            other => self.expression(other, Taken::Raw)?,
        };
        self.depth -= 1;
        Ok(rewritten)
    }

    /// Takes a value as its place asks.
    pub(super) fn take(&self, inner: Expr<'s>, at: Place, taken: Taken) -> Expr<'s> {
        match taken {
            Taken::Raw => inner,
            Taken::Maybe => apply("%maybe", inner, vec![], at),
            Taken::Used => {
                let text = constant(Native::from(self.text(at)), at);
                apply("%used", inner, vec![text], at)
            }
        }
    }

    pub(super) fn note(&mut self, expr: &Expr<'s>, guarded: bool) {
        let Some(path) = path(expr) else { return };
        let root = path.split(['.', '[']).next().unwrap_or_default();
        if !self.bound.contains(root) {
            self.uses.push(PathUse {
                path,
                range: range(extent(expr)),
                guarded,
            });
        }
    }

    pub(super) fn text(&self, at: Place) -> &'s str {
        self.source.get(range(at)).unwrap_or_default()
    }
}
