//! The template scope of an execution, from the data that a command carries.

use std::sync::Arc;

use language::template::{Envelope, ExecutionView, LazyValue, Scope};
use wire::ExecutionContext;

/// Returns the template scope of the execution; built once per context, cheap to clone.
pub(crate) fn context_scope(context: &ExecutionContext) -> Scope {
    context.derive(build_scope)
}

fn build_scope(context: &ExecutionContext) -> Scope {
    let steps = context.steps.iter();
    let steps = steps.map(|(name, latest)| (name.clone(), Envelope::from(latest)));
    Scope {
        workload: LazyValue::from_raw(context.workload.clone()),
        ctx: LazyValue::from_raw(context.ctx.clone()),
        steps: Arc::new(steps.collect()),
        execution: Arc::new(ExecutionView {
            execution_id: Some(context.execution_id),
            path: Some(context.path.clone()),
            version: Some(context.version),
            parent_execution_id: context.parent_execution_id,
        }),
        ..Scope::default()
    }
}
