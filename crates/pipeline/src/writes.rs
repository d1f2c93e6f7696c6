//! Writes: the values of `set`, `set_iter` and `set_ctx`, and their targets.

use model::ctx;
use model::event::Body;
use model::outcome::TaskError;
use model::playbook::{Directive, Write, WriteTarget};
use model::raw::Raw;
use model::size::{EVENT_BYTES_MAX, bytes, too_large};
use model::template::{Data, RenderError, Scope};
use serde_json::{Map, Value};

use crate::settle::Settled;

/// The values that one outcome writes, by target.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Writes {
    /// Values of the iteration (`iter`).
    pub iter: Map<String, Value>,
    /// Values of the execution (`ctx`); they may be reducers.
    pub ctx: Map<String, Value>,
    /// Values of the pipeline.
    pub local: Map<String, Value>,
}

impl Writes {
    /// Adds the rendered values of `writes`. None of them sees the effect of another.
    pub(crate) fn render(&mut self, writes: &[Write], scope: &Scope) -> Result<(), RenderError> {
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

impl Settled {
    /// Copies the current writes into the events that record them.
    pub fn record_writes(&mut self) {
        for draft in &mut self.events {
            let (set_iter, set_ctx, set) = match &mut draft.body {
                Body::TaskDone(ended) | Body::TaskFailed(ended) => {
                    (&mut ended.set_iter, &mut ended.set_ctx, &mut ended.set)
                }
                Body::PolicyEvaluated(policy) if policy.action.directive == Directive::Retry => {
                    (&mut policy.set_iter, &mut policy.set_ctx, &mut policy.set)
                }
                _ => continue,
            };
            *set_iter = raw(&self.writes.iter);
            *set_ctx = raw(&self.writes.ctx);
            *set = raw(&self.writes.local);
        }
    }

    /// Returns an error if one of the events exceeds `EVENT_BYTES_MAX`.
    pub fn too_large(&self) -> Option<TaskError> {
        let sizes = self.events.iter().map(|draft| draft.body.data_bytes());
        let what = "the outcome of a task with its writes";
        too_large(what, sizes.max().unwrap_or(0), EVENT_BYTES_MAX)
    }
}

/// Returns the patch that the end event of a parallel iteration carries, or an error if it is too large.
pub fn iteration_patch(patch: &Map<String, Value>) -> Result<Option<Raw>, Box<TaskError>> {
    match too_large("the patch of the iteration", bytes(patch), EVENT_BYTES_MAX) {
        Some(error) => Err(Box::new(error)),
        None => Ok(raw(patch)),
    }
}

/// The JSON text of a map, or `None` if the map is empty.
pub(crate) fn raw(map: &Map<String, Value>) -> Option<Raw> {
    (!map.is_empty()).then(|| Raw::of(map))
}

/// Makes the writes visible to templates that the pipeline renders next.
pub fn apply_writes(scope: &mut Scope, writes: &Writes) {
    if !writes.iter.is_empty() {
        let iter = scope.iter.get_or_insert_default();
        iter.values = merged(&iter.values, &writes.iter);
    }
    if !writes.local.is_empty() {
        scope.locals = merged(&scope.locals, &writes.local);
    }
    if !writes.ctx.is_empty() {
        let mut ctx = scope.ctx.json().as_object().cloned().unwrap_or_default();
        model::ctx::apply(&mut ctx, &writes.ctx);
        scope.ctx = Data::new(Value::Object(ctx));
    }
}

fn merged(data: &Data, more: &Map<String, Value>) -> Data {
    let mut map = data.json().as_object().cloned().unwrap_or_default();
    for (key, value) in more {
        map.insert(key.clone(), value.clone());
    }
    Data::new(Value::Object(map))
}
