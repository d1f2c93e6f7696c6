//! Writes: what `set`, `set_iter` and `set_ctx` put where.

use model::ctx;
use model::event::Body;
use model::outcome::TaskError;
use model::playbook::{Directive, Write, WriteTarget};
use model::raw::Raw;
use model::size::{EVENT_BYTES_MAX, bytes, too_large};
use model::template::{Data, RenderError, Scope};
use serde_json::{Map, Value};

use crate::settle::Settled;

/// The values written by one outcome, by target.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Writes {
    /// To the iteration.
    pub iter: Map<String, Value>,
    /// To the execution; values may be reducers.
    pub ctx: Map<String, Value>,
    /// To the pipeline.
    pub local: Map<String, Value>,
}

impl Writes {
    /// Adds the rendered values of `writes`. All of them see the scope as it was before any of them.
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

    /// The values that are kept as bodies, by key; put a reference in the place of each.
    pub fn large_values(&mut self) -> Vec<(&str, &mut Value)> {
        let maps = [&mut self.iter, &mut self.ctx, &mut self.local];
        maps.into_iter().flat_map(ctx::large_values).collect()
    }
}

impl Settled {
    /// Puts the writes, as they are now, into the events that record them.
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

    /// Why one of the events is more than the log takes, if it is.
    pub fn too_large(&self) -> Option<TaskError> {
        let sizes = self.events.iter().map(|draft| draft.body.data_bytes());
        let what = "a task's outcome with what it writes";
        too_large(what, sizes.max().unwrap_or(0), EVENT_BYTES_MAX)
    }
}

/// The patch that rides with the end of a parallel iteration, or why it cannot.
pub fn iteration_patch(patch: &Map<String, Value>) -> Result<Option<Raw>, Box<TaskError>> {
    match too_large("what the iteration writes", bytes(patch), EVENT_BYTES_MAX) {
        Some(error) => Err(Box::new(error)),
        None => Ok(raw(patch)),
    }
}

/// The text of a map that is not empty.
pub(crate) fn raw(map: &Map<String, Value>) -> Option<Raw> {
    (!map.is_empty()).then(|| Raw::of(map))
}

/// Makes the writes visible to what the pipeline renders next.
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
