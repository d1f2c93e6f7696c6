//! Bodies behind references: fields that are available without loading, and the body on first use.

use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr, Serde, Value as Native};
use model::result_ref::PathSegment;
use model::result_ref::ResultRef;
use serde_json::Value;

use crate::template::convert;
use crate::template::scope::{FileContent, FileNeed, LoadedValues, Need};
use crate::template::session;

/// Path to a value inside a body that is not loaded.
#[derive(Debug, Clone, PartialEq)]
pub struct BodyPath {
    /// The body.
    pub reference: ResultRef,
    /// The candidate paths; the first that exists is used. An empty path is the whole body.
    pub paths: Vec<Vec<PathSegment>>,
}

impl BodyPath {
    /// The whole body.
    pub fn whole_body(reference: ResultRef) -> Self {
        Self {
            reference,
            paths: vec![Vec::new()],
        }
    }

    /// The body's `data` if it has one, otherwise the whole body.
    pub(crate) fn data_of(reference: ResultRef) -> Self {
        Self::whole_body(reference).with_suffixes(&[&["data"], &[]])
    }

    /// Returns the paths with each of these suffixes, in order.
    fn with_suffixes(&self, suffixes: &[&[&str]]) -> Self {
        let under = |suffix: &&[&str]| {
            let suffix: Vec<PathSegment> = suffix.iter().map(|key| PathSegment::Key((*key).to_owned())).collect();
            self.paths.iter().map(move |path| [path.as_slice(), &suffix].concat())
        };
        Self {
            reference: self.reference.clone(),
            paths: suffixes.iter().flat_map(under).collect(),
        }
    }

    fn child(&self, segment: &PathSegment) -> Self {
        let down = |path: &Vec<PathSegment>| [path.as_slice(), std::slice::from_ref(segment)].concat();
        Self {
            reference: self.reference.clone(),
            paths: self.paths.iter().map(down).collect(),
        }
    }
}

/// Returns the value at the first path that exists.
pub fn find_path<'v>(value: &'v Value, paths: &[Vec<PathSegment>]) -> Option<&'v Value> {
    paths.iter().find_map(|path| {
        path.iter().try_fold(value, |value, segment| match segment {
            PathSegment::Key(key) => value.get(key),
            PathSegment::Index(index) => value.get(usize::try_from(*index).ok()?),
        })
    })
}

/// Placeholder for a value that is not loaded. It accepts all operations; the rendering then ends in `Needs` or, if
/// bodies are not to be loaded, in the path of the value.
#[derive(Debug, Default)]
pub(crate) struct PendingValue(Option<BodyPath>);

impl PendingValue {
    /// The path of the value.
    pub(crate) fn body_path(&self) -> Option<&BodyPath> {
        self.0.as_ref()
    }
}

impl Object for PendingValue {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn get_value(self: &Arc<Self>, key: &Native) -> Option<Native> {
        let Some(bound) = &self.0 else {
            return Some(Native::from_dyn_object(self.clone()));
        };
        let segment = match (key.as_str(), u64::try_from(key.clone())) {
            (Some(name), _) => PathSegment::Key(name.to_owned()),
            (None, Ok(index)) => PathSegment::Index(index),
            // A negative index or any other key has no path.
            (None, Err(_)) => return Some(Native::from_object(Self(None))),
        };
        Some(Native::from_object(Self(Some(bound.child(&segment)))))
    }

    fn call_method(
        self: &Arc<Self>,
        _state: &mut minijinja::State<'_, '_>,
        _method: &str,
        _args: &[Native],
    ) -> Result<Native, minijinja::Error> {
        Ok(Native::from_object(Self(None)))
    }
}

pub(crate) fn pending_value(need: Need) -> Native {
    session::record_need(need);
    Native::from_object(PendingValue::default())
}

/// Returns an attribute of a value or of its `data`, as the envelope does.
pub(crate) fn attribute_or_data(value: &Native, name: &str) -> Option<Native> {
    if let Some(bound) = body_path(value) {
        let alternatives = bound.with_suffixes(&[&[name], &["data", name]]);
        return Some(Native::from_object(PendingValue(Some(alternatives))));
    }
    defined_attribute(value, name).or_else(|| defined_attribute(&defined_attribute(value, "data")?, name))
}

/// Returns a value's `data`, or the value itself: the whole value of `x.data`.
pub(crate) fn data_or_whole(value: &Native) -> Native {
    if let Some(bound) = body_path(value) {
        let alternatives = bound.with_suffixes(&[&["data"], &[]]);
        return Native::from_object(PendingValue(Some(alternatives)));
    }
    defined_attribute(value, "data").unwrap_or_else(|| value.clone())
}

/// Returns the path of a value that is not loaded.
pub(crate) fn body_path(value: &Native) -> Option<BodyPath> {
    value.as_object()?.downcast_ref::<PendingValue>()?.body_path().cloned()
}

/// Whether a value is a placeholder for one that is not loaded.
pub(crate) fn is_pending(value: &Native) -> bool {
    let object = value.as_object();
    object.is_some_and(|object| object.downcast_ref::<PendingValue>().is_some())
}

/// Returns the path of a file, or requests the file if it does not exist yet.
pub(crate) fn file_value(need: FileNeed) -> Native {
    let file = session::with_session(|session| session.loaded.files.get(&need.key).cloned());
    match file {
        Some(path) => Native::from(path),
        None => pending_value(Need::File(Box::new(need))),
    }
}

/// Returns a body, or a part of it, as a file.
pub(crate) fn body_file(path: BodyPath) -> Native {
    let paths = serde_json::to_string(&path.paths).unwrap_or_default();
    let key = format!("{} {paths}", path.reference.uri);
    file_value(FileNeed {
        key,
        content: FileContent::Body(Box::new(path)),
    })
}

/// A body behind a reference, as a template object.
#[derive(Debug)]
pub(crate) struct BodyValue(ResultRef);

impl BodyValue {
    pub(crate) fn new(reference: ResultRef) -> Self {
        Self(reference)
    }

    /// Returns the body, if it is loaded.
    pub(crate) fn load(&self) -> Native {
        body_value(&self.0)
    }
}

/// Returns the body of a reference, if it is loaded.
pub(crate) fn body_value(reference: &ResultRef) -> Native {
    let (loaded, is_binding) = session::with_session(|session| (session.loaded.clone(), session.is_binding));
    if is_binding {
        let path = BodyPath::whole_body(reference.clone());
        return Native::from_object(PendingValue(Some(path)));
    }
    match loaded.bodies.get(&reference.uri) {
        Some(body) => body.native().clone(),
        None if is_unavailable(reference, &loaded) => Native::UNDEFINED,
        None => pending_value(Need::Body(Box::new(reference.clone()))),
    }
}

/// Whether a body is unavailable; the rendering then fails with the reason.
pub(crate) fn is_unavailable(reference: &ResultRef, loaded: &LoadedValues) -> bool {
    let reason = loaded.unavailable.get(&reference.uri).cloned();
    let is_unavailable = reason.is_some();
    if is_unavailable {
        session::with_session(|session| session.unavailable = reason);
    }
    is_unavailable
}

impl Object for BodyValue {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Native) -> Option<Native> {
        match key.as_str() {
            Some(name) => self.get_value_by_str(name),
            None => defined_item(&self.load(), key),
        }
    }

    fn get_value_by_str(self: &Arc<Self>, name: &str) -> Option<Native> {
        if let Some(value) = self.0.extracted.get(name) {
            return Some(convert::to_native(value));
        }
        if self.0.has_key(name) == Some(true) {
            return defined_attribute(&self.load(), name);
        }
        match name {
            "ref" => Some(Native::from(self.0.uri.as_str())),
            "store" => Some(Native::from(self.0.store.as_str())),
            "meta" => Some(Native::from(Serde(&self.0.meta))),
            "preview" => reference_field(&self.0, "_preview"),
            _ => reference_field(&self.0, name).or_else(|| defined_attribute(&self.load(), name)),
        }
    }

    fn render(self: &Arc<Self>, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(&self.load(), f)
    }
}

/// Returns a field of the reference itself, without loading the body. It is plain data, so it can be stored in state.
pub(crate) fn reference_field(reference: &ResultRef, name: &str) -> Option<Native> {
    Some(match name {
        "ref" | "reference" | "_ref" => Native::from(Serde(reference)),
        "_uri" => Native::from(reference.uri.as_str()),
        "_file" => body_file(BodyPath::whole_body(reference.clone())),
        "_store" => Native::from(reference.store.as_str()),
        "_preview" => Native::from(Serde(&reference.preview)),
        _ => return None,
    })
}

/// Returns an attribute that is defined.
pub(crate) fn defined_attribute(value: &Native, name: &str) -> Option<Native> {
    value.as_object()?.get_value_by_str(name)
}

/// Returns an item that is defined.
pub(crate) fn defined_item(value: &Native, key: &Native) -> Option<Native> {
    value.get_item(key).ok().filter(|field| !field.is_undefined())
}
