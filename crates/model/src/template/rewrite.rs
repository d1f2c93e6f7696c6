//! The syntax tree as the house runs it: every operator that could build without bound, every comparison and every use
//! of a name goes through a filter of ours. Enters: the parsed tree. Leaves: the tree to compile, and what it reads.

use std::collections::BTreeSet;
use std::ops::Range;

use minijinja::Value as Native;
use minijinja::machinery::Span as Place;
use minijinja::machinery::ast::{self, BinOpKind, CallArg, CompareOpKind, Expr, Spanned, Stmt};

use crate::template::environment;
use crate::template::operators::Text;
use crate::template::tree::SyntaxError;

/// A dotted path that a template reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathUse {
    /// The path: `iter.page`.
    pub path: String,
    /// Where it stands, in bytes of the template's own text.
    pub range: Range<usize>,
    /// Whether it may be missing there: under `default`, `is defined`, a comparison or a condition.
    pub guarded: bool,
}

/// How an expression's value is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// As it is: an attribute of it is read, or a comparison looks at it.
    Raw,
    /// Whole, and it may be missing.
    Maybe,
    /// Whole, and it must be there.
    Used,
}

/// Rewrites one template and notes what it reads.
#[derive(Default)]
pub(crate) struct Rewriter<'s> {
    source: &'s str,
    pub(crate) roots: BTreeSet<&'s str>,
    pub(crate) uses: Vec<PathUse>,
    /// Whether text is captured into a variable, which mixes the author's text with values.
    pub(crate) captures: bool,
    bound: BTreeSet<&'s str>,
}

type Done<T> = Result<T, SyntaxError>;

impl<'s> Rewriter<'s> {
    /// For the template with this text.
    pub(crate) fn new(source: &'s str) -> Self {
        Self {
            source,
            ..Self::default()
        }
    }

    /// A list of statements.
    pub(crate) fn body(&mut self, statements: &[Stmt<'s>]) -> Done<Vec<Stmt<'s>>> {
        statements.iter().map(|stmt| self.statement(stmt)).collect()
    }

    fn statement(&mut self, statement: &Stmt<'s>) -> Done<Stmt<'s>> {
        Ok(match statement {
            Stmt::EmitRaw(raw) => {
                let text = constant(Native::from_object(Text(raw.raw.into())), raw.span());
                emit(text, raw.span())
            }
            Stmt::EmitExpr(node) => emit(self.printed(&node.expr)?, node.span()),
            Stmt::Template(node) => {
                let children = self.body(&node.children)?;
                Stmt::Template(Spanned::new(ast::Template { children }, node.span()))
            }
            Stmt::ForLoop(node) => self.for_loop(node)?,
            Stmt::IfCond(node) => {
                let rewritten = ast::IfCond {
                    expr: self.expression(&node.expr, Taken::Maybe)?,
                    true_body: self.body(&node.true_body)?,
                    false_body: self.body(&node.false_body)?,
                };
                Stmt::IfCond(Spanned::new(rewritten, node.span()))
            }
            Stmt::WithBlock(node) => {
                let mut assignments = Vec::new();
                for (target, value) in &node.assignments {
                    let value = self.expression(value, Taken::Raw)?;
                    assignments.push((self.target(target)?, value));
                }
                let body = self.body(&node.body)?;
                Stmt::WithBlock(Spanned::new(
                    ast::WithBlock { assignments, body },
                    node.span(),
                ))
            }
            Stmt::Set(node) => {
                let expr = self.expression(&node.expr, Taken::Raw)?;
                let target = self.target(&node.target)?;
                Stmt::Set(Spanned::new(ast::Set { target, expr }, node.span()))
            }
            Stmt::SetBlock(node) => {
                self.captures = true;
                let rewritten = ast::SetBlock {
                    target: self.target(&node.target)?,
                    filter: node
                        .filter
                        .as_ref()
                        .map(|filter| self.expression(filter, Taken::Used))
                        .transpose()?,
                    body: self.body(&node.body)?,
                };
                Stmt::SetBlock(Spanned::new(rewritten, node.span()))
            }
            Stmt::FilterBlock(node) => {
                self.captures = true;
                let rewritten = ast::FilterBlock {
                    filter: self.expression(&node.filter, Taken::Used)?,
                    body: self.body(&node.body)?,
                };
                Stmt::FilterBlock(Spanned::new(rewritten, node.span()))
            }
            other => return Err(refused(other)),
        })
    }

    fn for_loop(&mut self, node: &Spanned<ast::ForLoop<'s>>) -> Done<Stmt<'s>> {
        if node.recursive {
            return Err(error("a recursive loop cannot be used here", node.span()));
        }
        let iter = self.expression(&node.iter, Taken::Used)?;
        let target = self.target(&node.target)?;
        self.bound.insert("loop");
        let rewritten = ast::ForLoop {
            target,
            iter,
            filter_expr: match &node.filter_expr {
                Some(filter) => Some(self.expression(filter, Taken::Maybe)?),
                None => None,
            },
            recursive: false,
            body: self.body(&node.body)?,
            else_body: self.body(&node.else_body)?,
        };
        Ok(Stmt::ForLoop(Spanned::new(rewritten, node.span())))
    }

    /// Where a value is stored: names, lists of names, attributes of a namespace.
    fn target(&mut self, target: &Expr<'s>) -> Done<Expr<'s>> {
        match target {
            Expr::Var(var) => {
                self.bound.insert(var.id);
                Ok(Expr::Var(Spanned::new(ast::Var { id: var.id }, var.span())))
            }
            Expr::Tuple(tuple) => {
                let items = tuple
                    .items
                    .iter()
                    .map(|item| self.target(item))
                    .collect::<Done<_>>()?;
                Ok(Expr::Tuple(Spanned::new(
                    ast::Tuple { items },
                    tuple.span(),
                )))
            }
            Expr::List(list) => {
                let items = list
                    .items
                    .iter()
                    .map(|item| self.target(item))
                    .collect::<Done<_>>()?;
                Ok(Expr::List(Spanned::new(ast::List { items }, list.span())))
            }
            other => self.expression(other, Taken::Raw),
        }
    }

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
            Expr::Slice(node) => {
                let part = |this: &mut Self, part: &Option<Expr<'s>>| {
                    part.as_ref()
                        .map(|part| this.expression(part, Taken::Maybe))
                        .transpose()
                };
                let rewritten = ast::Slice {
                    expr: self.expression(&node.expr, Taken::Used)?,
                    start: part(self, &node.start)?,
                    stop: part(self, &node.stop)?,
                    step: part(self, &node.step)?,
                };
                Expr::Slice(Spanned::new(rewritten, at))
            }
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
                let (keys, values) = (self.all(&node.keys)?, self.all(&node.values)?);
                Expr::Map(Spanned::new(ast::Map { keys, values }, at))
            }
        })
    }

    fn all(&mut self, items: &[Expr<'s>]) -> Done<Vec<Expr<'s>>> {
        items
            .iter()
            .map(|item| self.expression(item, Taken::Used))
            .collect()
    }

    /// A name, or what is read from one.
    fn access(&mut self, expr: &Expr<'s>) -> Done<Expr<'s>> {
        Ok(match expr {
            Expr::Var(node) => {
                if !self.bound.contains(node.id) {
                    self.roots.insert(node.id);
                }
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
                let rewritten = ast::GetItem {
                    expr: self.access(&node.expr)?,
                    subscript_expr: self.expression(&node.subscript_expr, Taken::Used)?,
                };
                Expr::GetItem(Spanned::new(rewritten, node.span()))
            }
            other => self.expression(other, Taken::Raw)?,
        })
    }

    /// Takes a value as its place asks.
    fn take(&self, inner: Expr<'s>, at: Place, taken: Taken) -> Expr<'s> {
        match taken {
            Taken::Raw => inner,
            Taken::Maybe => apply("%maybe", inner, vec![], at),
            Taken::Used => {
                let text = constant(Native::from(self.text(at)), at);
                apply("%used", inner, vec![text], at)
            }
        }
    }

    fn call(&mut self, node: &Spanned<ast::Call<'s>>) -> Done<Expr<'s>> {
        let expr = match &node.expr {
            Expr::Var(var) => {
                environment::check_function(var.id, range(var.span()))?;
                Expr::Var(Spanned::new(ast::Var { id: var.id }, var.span()))
            }
            Expr::GetAttr(attr) => {
                let rewritten = ast::GetAttr {
                    expr: self.expression(&attr.expr, Taken::Used)?,
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
        let args = self.arguments(&node.args, Taken::Used)?;
        Ok(Expr::Call(Spanned::new(
            ast::Call { expr, args },
            node.span(),
        )))
    }

    fn arguments(&mut self, args: &[CallArg<'s>], taken: Taken) -> Done<Vec<CallArg<'s>>> {
        args.iter()
            .map(|arg| {
                Ok(match arg {
                    CallArg::Pos(value) => CallArg::Pos(self.expression(value, taken)?),
                    CallArg::Kwarg(name, value) => {
                        CallArg::Kwarg(name, self.expression(value, taken)?)
                    }
                    CallArg::PosSplat(value) => CallArg::PosSplat(self.expression(value, taken)?),
                    CallArg::KwargSplat(value) => {
                        CallArg::KwargSplat(self.expression(value, taken)?)
                    }
                })
            })
            .collect()
    }

    fn filter(&mut self, node: &Spanned<ast::Filter<'s>>, taken: Taken) -> Done<Expr<'s>> {
        let at = node.span();
        environment::check_filter(node.name, range(at))?;
        let may_be_missing = matches!(node.name, "default" | "d");
        let subject = if may_be_missing {
            Taken::Maybe
        } else {
            Taken::Used
        };
        let rewritten = ast::Filter {
            name: node.name,
            expr: match &node.expr {
                Some(expr) => Some(self.expression(expr, subject)?),
                None => None,
            },
            args: self.arguments(&node.args, subject)?,
        };
        let inner = Expr::Filter(Spanned::new(rewritten, at));
        Ok(self.take(apply("%built", inner, vec![], at), at, taken))
    }

    fn test(&mut self, node: &Spanned<ast::Test<'s>>) -> Done<Expr<'s>> {
        environment::check_test(node.name, range(node.span()))?;
        let taken = match node.name {
            "none" | "string" | "number" | "mapping" | "sequence" | "iterable" | "boolean"
            | "true" | "false" | "integer" | "int" | "float" => Taken::Maybe,
            "defined" | "undefined" | "eq" | "ne" | "equalto" | "==" | "!=" | "in" => Taken::Raw,
            _ => Taken::Used,
        };
        let rewritten = ast::Test {
            name: node.name,
            expr: self.expression(&node.expr, taken)?,
            args: self.arguments(&node.args, taken)?,
        };
        Ok(Expr::Test(Spanned::new(rewritten, node.span())))
    }

    fn binary(&mut self, node: &Spanned<ast::BinOp<'s>>, taken: Taken) -> Done<Expr<'s>> {
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
    fn chain(&mut self, node: &Spanned<ast::Compare<'s>>) -> Done<Expr<'s>> {
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

    fn note(&mut self, expr: &Expr<'s>, guarded: bool) {
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

    fn text(&self, at: Place) -> &'s str {
        self.source.get(range(at)).unwrap_or_default()
    }
}

/// The whole place of an expression: the library's begins at the last attribute or operator.
fn extent(expr: &Expr<'_>) -> Place {
    let begins = match expr {
        Expr::GetAttr(node) => extent(&node.expr),
        Expr::GetItem(node) => extent(&node.expr),
        Expr::Slice(node) => extent(&node.expr),
        Expr::Call(node) => extent(&node.expr),
        Expr::BinOp(node) => extent(&node.left),
        Expr::Compare(node) => extent(&node.expr),
        Expr::Test(node) => extent(&node.expr),
        Expr::Filter(node) => match &node.expr {
            Some(inner) => extent(inner),
            None => return expr.span(),
        },
        other => return other.span(),
    };
    let ends = expr.span();
    if begins.start_offset > ends.start_offset {
        return ends;
    }
    Place {
        start_line: begins.start_line,
        start_col: begins.start_col,
        start_offset: begins.start_offset,
        ..ends
    }
}

/// The dotted path an expression reads, as far as it is written out.
fn path(expr: &Expr<'_>) -> Option<String> {
    match expr {
        Expr::Var(node) => Some(node.id.to_owned()),
        Expr::GetAttr(node) => Some(format!("{}.{}", path(&node.expr)?, node.name)),
        Expr::GetItem(node) => {
            let base = path(&node.expr)?;
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

fn apply<'s>(name: &'static str, value: Expr<'s>, rest: Vec<Expr<'s>>, at: Place) -> Expr<'s> {
    let args = rest.into_iter().map(CallArg::Pos).collect();
    Expr::Filter(Spanned::new(
        ast::Filter {
            name,
            expr: Some(value),
            args,
        },
        at,
    ))
}

fn constant<'s>(value: Native, at: Place) -> Expr<'s> {
    Expr::Const(Spanned::new(ast::Const { value }, at))
}

fn emit<'s>(expr: Expr<'s>, at: Place) -> Stmt<'s> {
    Stmt::EmitExpr(Spanned::new(ast::EmitExpr { expr }, at))
}

pub(crate) fn range(at: Place) -> Range<usize> {
    at.start_offset as usize..at.end_offset as usize
}

fn error(message: &str, at: Place) -> SyntaxError {
    SyntaxError {
        message: message.to_owned(),
        range: Some(range(at)),
    }
}

fn refused(statement: &Stmt<'_>) -> SyntaxError {
    let (word, at) = match statement {
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
                message: "this statement cannot be used in a playbook".to_owned(),
                range: None,
            };
        }
    };
    error(
        &format!("`{{% {word} %}}` cannot be used in a playbook"),
        at,
    )
}
