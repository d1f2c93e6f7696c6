//! Writes: the values of `set`, `set_iter` and `set_ctx`, and their targets.

use language::playbook::{SetEntry, WriteTarget};
use language::template::{LazyValue, RenderError, Scope};
use model::ctx;
use model::event::EventBody;
use model::outcome::TaskError;
use model::playbook::Directive;
use model::raw::RawJson;
use model::size::{EVENT_BYTES_MAX, json_bytes, size_error};
use serde_json::{Map, Value};

use crate::apply_policy::OutcomeRecord;

/// The values that one outcome writes, by target.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RenderedWrites {
    /// Values of the iteration (`iter`).
    pub iter: Map<String, Value>,
    /// Values of the execution (`ctx`); they may be reducers.
    pub ctx: Map<String, Value>,
    /// Values of the pipeline.
    pub local: Map<String, Value>,
}

impl RenderedWrites {
    /// Adds the rendered values of `writes`. None of them sees the effect of another.
    pub(crate) fn add_rendered(&mut self, writes: &[SetEntry], scope: &Scope) -> Result<(), RenderError> {
        let mut rendered = Vec::with_capacity(writes.len());
        for write in writes {
            rendered.push(write.value.render(scope)?.value);
        }
        for (write, value) in writes.iter().zip(rendered) {
            let target = match write.target {
                WriteTarget::Iter => &mut self.iter,
                WriteTarget::Ctx => &mut self.ctx,
                WriteTarget::Local => &mut self.local,
            };
            target.insert(write.key.to_string(), value);
        }
        Ok(())
    }

    /// Values that are too large for an event and must be replaced by a reference, by key.
    pub fn large_values(&mut self) -> Vec<(&str, &mut Value)> {
        let maps = [&mut self.iter, &mut self.ctx, &mut self.local];
        maps.into_iter().flat_map(ctx::large_values).collect()
    }
}

impl OutcomeRecord {
    /// Copies the current writes into the events that record them.
    pub fn record_writes(&mut self) {
        for draft in &mut self.events {
            let (set_iter, set_ctx, set) = match &mut draft.body {
                EventBody::TaskDone(ended) | EventBody::TaskFailed(ended) => {
                    (&mut ended.set_iter, &mut ended.set_ctx, &mut ended.set)
                }
                EventBody::PolicyEvaluated(policy) if policy.action.directive == Directive::Retry => {
                    (&mut policy.set_iter, &mut policy.set_ctx, &mut policy.set)
                }
                _ => continue,
            };
            *set_iter = to_raw(&self.writes.iter);
            *set_ctx = to_raw(&self.writes.ctx);
            *set = to_raw(&self.writes.local);
        }
    }

    /// Returns an error if one of the events exceeds `EVENT_BYTES_MAX`.
    pub fn size_error(&self) -> Option<TaskError> {
        let sizes = self.events.iter().map(|draft| draft.body.data_bytes());
        let subject = "the outcome of a task with its writes";
        size_error(subject, sizes.max().unwrap_or(0), EVENT_BYTES_MAX)
    }
}

/// Returns the patch that the end event of a parallel iteration carries, or an error if it is too large.
pub fn iteration_patch(patch: &Map<String, Value>) -> Result<Option<RawJson>, Box<TaskError>> {
    match size_error("the patch of the iteration", json_bytes(patch), EVENT_BYTES_MAX) {
        Some(error) => Err(Box::new(error)),
        None => Ok(to_raw(patch)),
    }
}

/// The JSON text of a map, or `None` if the map is empty.
pub(crate) fn to_raw(map: &Map<String, Value>) -> Option<RawJson> {
    (!map.is_empty()).then(|| RawJson::from_serializable(map))
}

/// Makes the writes visible to templates that the pipeline renders next.
pub fn apply_writes(scope: &mut Scope, writes: &RenderedWrites) {
    if !writes.iter.is_empty() {
        let iter = scope.iter.get_or_insert_default();
        iter.values = merge_values(&iter.values, &writes.iter);
    }
    if !writes.local.is_empty() {
        scope.locals = merge_values(&scope.locals, &writes.local);
    }
    if !writes.ctx.is_empty() {
        let mut ctx = scope.ctx.json().as_object().cloned().unwrap_or_default();
        model::ctx::apply_patch(&mut ctx, &writes.ctx);
        scope.ctx = LazyValue::new(Value::Object(ctx));
    }
}

fn merge_values(values: &LazyValue, added: &Map<String, Value>) -> LazyValue {
    let mut map = values.json().as_object().cloned().unwrap_or_default();
    for (key, value) in added {
        map.insert(key.clone(), value.clone());
    }
    LazyValue::new(Value::Object(map))
}
