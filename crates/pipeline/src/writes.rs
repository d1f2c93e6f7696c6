//! Writes: what `set`, `set_iter` and `set_ctx` put where.

use model::playbook::{Write, WriteTarget};
use model::template::{Data, RenderError, Scope};
use serde_json::{Map, Value};

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
