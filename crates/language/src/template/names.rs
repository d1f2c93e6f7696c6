//! Resolves the root names of a template, in the order of the language reference.

use std::sync::Arc;

use minijinja::value::{Enumerator, Object, Serde, Value as Native};
use model::event::EventStatus;

use crate::template::convert;
use crate::template::envelope::{AliasedWord, envelope_view, outcome_view};
use crate::template::reference::defined_attribute;
use crate::template::scope::{EventView, ExecutionView, IterationView, Scope};

/// The resolved root names of one rendering; only those that the template uses.
#[derive(Debug)]
pub(crate) struct RootNames(Vec<(Arc<str>, Native)>);

impl RootNames {
    /// Resolves `names` in `scope`.
    pub(crate) fn resolve(names: &[Arc<str>], scope: &Scope) -> Native {
        let value = names
            .iter()
            .filter_map(|name| Some((name.clone(), look_up_root(scope, name)?)))
            .collect();
        Native::from_object(Self(value))
    }
}

impl Object for RootNames {
    fn get_value(self: &Arc<Self>, key: &Native) -> Option<Native> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Native> {
        let (_, value) = self.0.iter().find(|(name, _)| name.as_ref() == key)?;
        Some(value.clone())
    }
}

/// Returns the value of a root name.
fn look_up_root(scope: &Scope, name: &str) -> Option<Native> {
    if is_reserved(name) {
        return reserved_value(scope, name);
    }
    user_value(scope, name).or_else(|| builtin_value(scope, name))
}

fn is_reserved(name: &str) -> bool {
    name.starts_with('_')
        || matches!(
            name,
            "workload"
                | "ctx"
                | "iter"
                | "args"
                | "input"
                | "event"
                | "outcome"
                | "output"
                | "execution_id"
                | "keychain"
        )
}

fn reserved_value(scope: &Scope, name: &str) -> Option<Native> {
    match name {
        "workload" => Some(scope.workload.native().clone()),
        "ctx" => Some(Native::from_object(LayeredMap(
            scope.ctx.native().clone(),
            scope.workload.native().clone(),
        ))),
        "iter" => scope.iter.as_ref().map(iteration_value),
        "args" => Some(scope.args.native().clone()),
        "input" => Some(scope.input.native().clone()),
        "event" => scope.event.clone().map(|event| Native::from_object(EventObject(event))),
        "outcome" | "output" => scope.outcome.as_ref().map(outcome_view),
        "execution_id" => scope.execution.execution_id.map(|id| Native::from(id.to_string())),
        "keychain" => scope.keychain.as_ref().map(|data| convert::to_keychain(data.json())),
        "_prev" => scope.previous.as_ref().map(envelope_view),
        "_task" => scope.task.as_ref().map(|task| Native::from(task.as_str())),
        "_attempt" => scope.attempt.map(Native::from),
        "_index" => iteration_index(scope),
        _ => user_value(scope, name),
    }
}

fn user_value(scope: &Scope, name: &str) -> Option<Native> {
    let layer = |data: &crate::template::LazyValue| defined_attribute(data.native(), name);
    layer(&scope.locals)
        .or_else(|| layer(&scope.input))
        .or_else(|| layer(&scope.args))
        .or_else(|| layer(&scope.ctx))
        .or_else(|| layer(&scope.iter.as_ref()?.values))
        .or_else(|| layer(&scope.workload))
        .or_else(|| scope.labels.get(name).map(envelope_view))
        .or_else(|| scope.steps.get(name).map(envelope_view))
}

fn builtin_value(scope: &Scope, name: &str) -> Option<Native> {
    let ExecutionView {
        execution_id,
        path,
        version,
        parent_execution_id,
    } = scope.execution.as_ref();
    match name {
        "path" => path.as_ref().map(|path| Native::from(path.as_str())),
        "version" => version.map(Native::from),
        "job" => execution_id.map(|id| {
            let id = Native::from(id.to_string());
            Native::from_pairs([("id", id.clone()), ("uuid", id.clone()), ("execution_id", id)])
        }),
        "parent_execution_id" => Some(parent_execution_id.map_or(Native::from(()), |id| Native::from(id.to_string()))),
        "idempotency_key" => scope.idempotency_key.as_deref().map(Native::from),
        "steps" => Some(Native::from_pairs(
            scope
                .steps
                .iter()
                .map(|(name, envelope)| (name.as_str(), envelope_view(envelope))),
        )),
        "results" => Some(Native::from_pairs(
            scope
                .labels
                .iter()
                .map(|(name, envelope)| (name.as_str(), envelope_view(envelope))),
        )),
        "env" => scope.env.as_ref().map(|env| env.native().clone()),
        "loop_index" => iteration_index(scope),
        "loop" => scope
            .iter
            .as_ref()
            .filter(|iter| iter.index.is_some())
            .map(iteration_value),
        _ => None,
    }
}

fn iteration_index(scope: &Scope) -> Option<Native> {
    scope.iter.as_ref()?.index.map(Native::from)
}

/// `event`: fields are created on access, because conditions read only one or two.
#[derive(Debug)]
struct EventObject(EventView);

impl Object for EventObject {
    fn get_value(self: &Arc<Self>, key: &Native) -> Option<Native> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Native> {
        let event = &self.0;
        Some(match key {
            "name" => Native::from_object(AliasedWord {
                name: event.kind.name(),
                aliases: event.kind.aliases(),
            }),
            "step" => event
                .step
                .as_ref()
                .map_or(Native::from(()), |step| Native::from(step.as_str())),
            "status" => match event.status {
                EventStatus::Success => Native::from_object(AliasedWord {
                    name: "success",
                    aliases: &["ok"],
                }),
                status => Native::from(Serde(status)),
            },
            "payload" => event.payload.native().clone(),
            "timestamp" => Native::from(event.timestamp.to_string()),
            _ => return None,
        })
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Str(&["name", "step", "status", "payload", "timestamp"])
    }
}

/// `iter` and `loop`: the iteration's values, then its index and length.
fn iteration_value(iter: &IterationView) -> Native {
    let mut location = Vec::new();
    if let Some(index) = iter.index {
        let last = index + 1 >= iter.length;
        location = vec![
            ("index", Native::from(index)),
            ("first", Native::from(index == 0)),
            ("last", Native::from(last)),
            ("done", Native::from(last)),
            ("length", Native::from(iter.length)),
        ];
    }
    if let Some(parent) = &iter.parent {
        location.push(("parent", parent.native().clone()));
    }
    Native::from_object(LayeredMap(iter.values.native().clone(), Native::from_pairs(location)))
}

/// A map with a fallback for keys that it does not have.
#[derive(Debug)]
struct LayeredMap(Native, Native);

impl Object for LayeredMap {
    fn get_value(self: &Arc<Self>, key: &Native) -> Option<Native> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Native> {
        defined_attribute(&self.0, key).or_else(|| defined_attribute(&self.1, key))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.try_iter().into_iter().flatten().collect())
    }
}
