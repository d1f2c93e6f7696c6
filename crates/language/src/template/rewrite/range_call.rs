//! `range(…)` as a whole expression: a loop over it only needs the arguments, not the list.

use minijinja::machinery::ast::{self, CallArg, Expr, Spanned};

use super::statements::{RewriteResult, Rewriter, ValueUse};

/// Returns the call, if an expression is exactly `range(…)` or `range(…) | list` with positional arguments.
pub(crate) fn range_call<'a, 's>(expr: &'a Expr<'s>) -> Option<&'a Spanned<ast::Call<'s>>> {
    match expr {
        Expr::Filter(node) if node.name == "list" && node.args.is_empty() => range_call(node.expr.as_ref()?),
        Expr::Call(node) => {
            let is_range = matches!(&node.expr, Expr::Var(function) if function.id == "range");
            let is_positional = |arg: &CallArg<'_>| matches!(arg, CallArg::Pos(_));
            let has_arguments = (1..=3).contains(&node.args.len());
            let is_exact = is_range && has_arguments && node.args.iter().all(is_positional);
            is_exact.then_some(node)
        }
        _ => None,
    }
}

impl<'s> Rewriter<'s> {
    /// Returns the arguments of such a call as a list.
    pub(crate) fn rewrite_range_arguments(&mut self, call: &Spanned<ast::Call<'s>>) -> RewriteResult<Expr<'s>> {
        let mut items = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            if let CallArg::Pos(value) = arg {
                items.push(self.rewrite_expression(value, ValueUse::Required)?);
            }
        }
        Ok(Expr::List(Spanned::new(ast::List { items }, call.span())))
    }
}
