//! Bodies behind references: what is known of them without loading, and the rest when touched.

use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr, Serde, Value as Native};

use crate::result_ref::ResultRef;
use crate::template::convert;
use crate::template::scope::{Loaded, Need};
use crate::template::session;

/// Stands for what is not loaded yet: everything may be asked of it, and the rendering ends in `Needs`.
#[derive(Debug)]
struct Pending;

impl Object for Pending {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn get_value(self: &Arc<Self>, _key: &Native) -> Option<Native> {
        Some(Native::from_dyn_object(self.clone()))
    }

    fn call_method(
        self: &Arc<Self>,
        _state: &mut minijinja::State<'_, '_>,
        _method: &str,
        _args: &[Native],
    ) -> Result<Native, minijinja::Error> {
        Ok(Native::from_dyn_object(self.clone()))
    }
}

pub(crate) fn pending(need: Need) -> Native {
    session::need(need);
    Native::from_object(Pending)
}

/// A body behind a reference.
#[derive(Debug)]
pub(crate) struct Reference(ResultRef);

impl Reference {
    pub(crate) fn new(reference: ResultRef) -> Self {
        Self(reference)
    }

    /// The body, if it is loaded.
    pub(crate) fn body(&self) -> Native {
        body(&self.0)
    }
}

/// A reference's body, if it is loaded.
pub(crate) fn body(reference: &ResultRef) -> Native {
    let loaded = session::with(|session| session.loaded.clone());
    match loaded.bodies.get(&reference.uri) {
        Some(body) => body.native().clone(),
        None if unavailable(reference, &loaded) => Native::UNDEFINED,
        None => pending(Need::Body(Box::new(reference.clone()))),
    }
}

/// Whether a body cannot be had; the rendering then says why.
pub(crate) fn unavailable(reference: &ResultRef, loaded: &Loaded) -> bool {
    let why = loaded.unavailable.get(&reference.uri).cloned();
    let is_gone = why.is_some();
    if is_gone {
        session::with(|session| session.unavailable = why);
    }
    is_gone
}

impl Object for Reference {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Native) -> Option<Native> {
        match key.as_str() {
            Some(name) => self.get_value_by_str(name),
            None => item(&self.body(), key),
        }
    }

    fn get_value_by_str(self: &Arc<Self>, name: &str) -> Option<Native> {
        if let Some(value) = self.0.extracted.get(name) {
            return Some(convert::to_native(value));
        }
        match name {
            "ref" => Some(Native::from(self.0.uri.as_str())),
            "store" => Some(Native::from(self.0.store.as_str())),
            "meta" => Some(Native::from(Serde(&self.0.meta))),
            "preview" => known(&self.0, "_preview"),
            _ => known(&self.0, name).or_else(|| attribute(&self.body(), name)),
        }
    }

    fn render(self: &Arc<Self>, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(&self.body(), f)
    }
}

/// What a reference says of itself, without its body. As a value it is plain data, so that it can be kept in state.
pub(crate) fn known(reference: &ResultRef, name: &str) -> Option<Native> {
    Some(match name {
        "ref" | "reference" | "_ref" => Native::from(Serde(reference)),
        "_store" => Native::from(reference.store.as_str()),
        "_preview" => Native::from(Serde(&reference.preview)),
        _ => return None,
    })
}

/// An attribute that is there.
pub(crate) fn attribute(value: &Native, name: &str) -> Option<Native> {
    value.as_object()?.get_value_by_str(name)
}

/// An item that is there.
pub(crate) fn item(value: &Native, key: &Native) -> Option<Native> {
    value
        .get_item(key)
        .ok()
        .filter(|found| !found.is_undefined())
}
