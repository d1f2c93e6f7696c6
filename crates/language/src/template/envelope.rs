//! Template objects for outcomes, and for bodies that load on first use.

use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr, Serde, Value as Native, ValueKind};
use model::id::Seq;
use model::outcome::{Facets, Outcome};
use model::result_ref::ResultRef;
use model::step_pointer::LoopPointer;
use serde_json::{Value, json};

use crate::template::accumulated::AccumulatedPart;
use crate::template::convert::{self, KeychainValue};
use crate::template::reference;
use crate::template::reference::{
    BodyPath, BodyValue, attribute_or_data, body_file, body_value, data_or_whole, defined_attribute, defined_item,
    file_value, pending_value, reference_field,
};
use crate::template::scope::{Envelope, EnvelopeContent, FileContent, FileNeed, Need};
use crate::template::session;

/// A word with aliases, such as an event name or a status. It equals each alias and prints the first.
#[derive(Debug)]
pub(crate) struct AliasedWord {
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
}

impl AliasedWord {
    /// Whether `text` is one of its aliases.
    pub(crate) fn is_spelling(&self, text: &str) -> bool {
        self.name == text || self.aliases.contains(&text)
    }

    /// The status of an outcome.
    pub(crate) fn status_value(is_ok: bool) -> Native {
        Native::from_object(if is_ok {
            Self {
                name: "ok",
                aliases: &["success"],
            }
        } else {
            Self {
                name: "error",
                aliases: &["failed"],
            }
        })
    }
}

impl Object for AliasedWord {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Which one is used if the result and the envelope have the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Precedence {
    /// The result's own key: `step.x`, `label.x`.
    Result,
    /// The envelope's field: `outcome.x`, `output.x`.
    Envelope,
}

/// An outcome as a template object.
#[derive(Debug)]
pub(crate) struct EnvelopeView {
    envelope: Envelope,
    precedence: Precedence,
}

/// A step or a task by name: the result's own keys override the envelope's fields.
pub(crate) fn envelope_view(envelope: &Envelope) -> Native {
    Native::from_object(EnvelopeView::new(envelope.clone(), Precedence::Result))
}

/// The current outcome: the envelope's fields override the result's own keys.
pub(crate) fn outcome_view(envelope: &Envelope) -> Native {
    Native::from_object(EnvelopeView::new(envelope.clone(), Precedence::Envelope))
}

/// Returns the value to use for `value` as a whole: for an envelope, its result.
pub(crate) fn unwrap_view(value: &Native) -> Native {
    let Some(object) = value.as_object() else {
        return value.clone();
    };
    if let Some(view) = object.downcast_ref::<EnvelopeView>() {
        view.whole_value()
    } else if let Some(reference) = object.downcast_ref::<BodyValue>() {
        reference.load()
    } else if let Some(data) = object.downcast_ref::<DataView>() {
        data.whole_value()
    } else if let Some(aliased) = object.downcast_ref::<AliasedWord>() {
        Native::from(aliased.name)
    } else if let Some(secret) = object.downcast_ref::<KeychainValue>() {
        secret.reveal()
    } else {
        value.clone()
    }
}

impl Object for EnvelopeView {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Native) -> Option<Native> {
        match key.as_str() {
            Some(name) => self.get_value_by_str(name),
            None => defined_item(&self.data_source(), key),
        }
    }

    fn get_value_by_str(self: &Arc<Self>, name: &str) -> Option<Native> {
        self.attribute(name)
    }

    fn render(self: &Arc<Self>, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(&self.whole_value(), f)
    }
}

/// Outcome of a lookup: loaded, absent or not loaded yet.
enum OutcomeLookup {
    Outcome(Arc<Outcome>),
    Missing,
    Pending(Native),
}

impl EnvelopeView {
    fn new(envelope: Envelope, precedence: Precedence) -> Self {
        Self { envelope, precedence }
    }

    fn attribute(&self, name: &str) -> Option<Native> {
        // `data` handles the result's own `data` itself.
        if name == "data" {
            return Some(self.data());
        }
        let field = match self.precedence {
            Precedence::Envelope => self
                .envelope_key(name)
                .or_else(|| self.task_view(name))
                .or_else(|| self.extracted(name)),
            Precedence::Result => {
                let own = self.extracted(name).or_else(|| self.own_key(name));
                if name == "error" && self.envelope.is_ok {
                    return own;
                }
                own.or_else(|| self.envelope_key(name)).or_else(|| self.task_view(name))
            }
        };
        let field = field.or_else(|| attribute_or_data(&self.data_source(), name));
        match (field, name) {
            (None, "context") => defined_attribute(&self.outcome_field("meta"), name),
            (field, _) => field,
        }
    }

    /// Returns the result's own key. A stored body is loaded only if it may have the key.
    fn own_key(&self, name: &str) -> Option<Native> {
        if !self.envelope.is_ok {
            return None;
        }
        match &self.envelope.content {
            EnvelopeContent::Loop(_) => self.loop_key(name),
            EnvelopeContent::Parts(gathered) if gathered.is_list() => None,
            EnvelopeContent::Error(_) | EnvelopeContent::Empty => None,
            EnvelopeContent::Outcome(_) | EnvelopeContent::Event(_) | EnvelopeContent::Parts(_) => {
                let reference = self.reference();
                let has_key = reference.and_then(|reference| reference.has_key(name));
                if has_key == Some(false) {
                    return None;
                }
                defined_attribute(&self.result(), name)
            }
        }
    }

    /// Returns `results` or `stats` of a loop. The counts are read without loading the results.
    fn loop_key(&self, name: &str) -> Option<Native> {
        match (&self.envelope.content, name) {
            (EnvelopeContent::Loop(pointer), "stats") => loop_stats(pointer),
            (EnvelopeContent::Loop(_), "results") => defined_attribute(&self.result(), name),
            _ => None,
        }
    }

    /// Returns a field of the envelope itself.
    fn envelope_key(&self, name: &str) -> Option<Native> {
        match name {
            "status" => Some(AliasedWord::status_value(self.envelope.is_ok)),
            "result" => Some(self.result()),
            "response" if self.precedence == Precedence::Envelope => Some(self.result()),
            "error" => Some(self.error()),
            "body" if self.is_http_response() => defined_attribute(&self.result(), "data"),
            "meta" | "http" | "pg" | "py" => Some(self.outcome_field(name)),
            "ref" | "reference" | "_ref" | "_uri" | "_store" | "_preview" => {
                self.reference().and_then(|reference| reference_field(&reference, name))
            }
            "_file" => match self.reference() {
                Some(reference) => reference_field(&reference, name),
                None => value_file(&self.result()),
            },
            "results" | "stats" if matches!(self.envelope.content, EnvelopeContent::Loop(_)) => self.loop_key(name),
            "results" if !self.envelope.labels.is_empty() => {
                let labels = self.envelope.labels.iter();
                Some(Native::from_pairs(
                    labels.map(|(label, envelope)| (label.as_str(), envelope_view(envelope))),
                ))
            }
            _ => None,
        }
    }

    /// Returns a task of a step: `x.<label>`.
    fn task_view(&self, name: &str) -> Option<Native> {
        let mut labels = self.envelope.labels.iter();
        let task = labels.find(|(label, _)| label.as_str() == name);
        task.map(|(_, envelope)| envelope_view(envelope))
    }

    fn is_http_response(&self) -> bool {
        let (EnvelopeContent::Outcome(_) | EnvelopeContent::Event(_)) = &self.envelope.content else {
            return false;
        };
        match self.outcome() {
            OutcomeLookup::Outcome(outcome) => outcome.is_ok() && outcome.facets().http.is_some(),
            OutcomeLookup::Missing | OutcomeLookup::Pending(_) => false,
        }
    }

    fn outcome(&self) -> OutcomeLookup {
        match &self.envelope.content {
            EnvelopeContent::Outcome(outcome) => OutcomeLookup::Outcome(outcome.clone()),
            EnvelopeContent::Event(seq) => recorded_outcome(*seq),
            EnvelopeContent::Parts(gathered) => match gathered.latest() {
                Some(AccumulatedPart::Outcome(outcome)) => OutcomeLookup::Outcome(outcome.clone()),
                Some(AccumulatedPart::Event(seq)) => recorded_outcome(*seq),
                None => OutcomeLookup::Missing,
            },
            EnvelopeContent::Error(_) | EnvelopeContent::Loop(_) | EnvelopeContent::Empty => OutcomeLookup::Missing,
        }
    }

    fn reference(&self) -> Option<ResultRef> {
        if let EnvelopeContent::Parts(_) = &self.envelope.content {
            return None;
        }
        match self.outcome() {
            OutcomeLookup::Outcome(outcome) => match outcome.as_ref() {
                Outcome::Ok(success) => success.reference.as_deref().cloned(),
                Outcome::Error(_) => None,
            },
            OutcomeLookup::Missing | OutcomeLookup::Pending(_) => None,
        }
    }

    /// Returns the value as a whole: the result, with its status if `shows_status` is set.
    fn whole_value(&self) -> Native {
        if let (true, EnvelopeContent::Outcome(outcome)) = (self.envelope.shows_status, &self.envelope.content) {
            return match outcome.as_ref() {
                Outcome::Ok(_) => with_key(self.result(), "status", || Some(Native::from("ok"))),
                // A `set` that stores the outcome of a failed task stores the error.
                Outcome::Error(failure) => {
                    let error = serde_json::to_value(&failure.error).unwrap_or_default();
                    convert::to_native(&json!({"status": "error", "error": error}))
                }
            };
        }
        if session::with_session(|session| session.names_http_body) && self.is_http_response() {
            return with_body(self.result());
        }
        self.result()
    }

    /// Returns the raw result; for a loop, `{results, stats}`.
    fn result(&self) -> Native {
        match &self.envelope.content {
            EnvelopeContent::Loop(pointer) => {
                let loaded = session::with_session(|session| session.loaded.clone());
                return match loaded.loops.get(&pointer.done) {
                    Some(results) => results.native().clone(),
                    None => pending_value(Need::Loop(pointer.clone())),
                };
            }
            EnvelopeContent::Parts(gathered) => return gathered.native(),
            EnvelopeContent::Error(_) | EnvelopeContent::Empty => return Native::from(()),
            EnvelopeContent::Outcome(_) | EnvelopeContent::Event(_) => {}
        }
        match self.outcome() {
            OutcomeLookup::Outcome(outcome) => match outcome.as_ref() {
                Outcome::Ok(success) => match &success.reference {
                    Some(reference) => body_value(reference),
                    None => session::converted_result(&outcome, &success.result),
                },
                Outcome::Error(_) => Native::from(()),
            },
            OutcomeLookup::Missing => Native::from(()),
            OutcomeLookup::Pending(value) => value,
        }
    }

    /// Returns the value in which `data`, indexes and other names are looked up: the result; for a loop, its list.
    fn data_source(&self) -> Native {
        let result = self.result();
        match &self.envelope.content {
            EnvelopeContent::Loop(_) => defined_attribute(&result, "results").unwrap_or_default(),
            _ => result,
        }
    }

    /// Returns `data`: the result's own `data` if it has one, otherwise the result. Keys are looked up in both.
    fn data(&self) -> Native {
        Native::from_object(DataView(self.envelope.clone()))
    }

    fn error(&self) -> Native {
        if self.envelope.is_ok {
            return Native::from(());
        }
        if let EnvelopeContent::Error(error) = &self.envelope.content {
            return convert::to_native(error);
        }
        match self.outcome() {
            OutcomeLookup::Outcome(outcome) => Native::from(Serde(outcome.failure())),
            OutcomeLookup::Missing => Native::from(()),
            OutcomeLookup::Pending(value) => value,
        }
    }

    fn outcome_field(&self, name: &str) -> Native {
        let outcome = match self.outcome() {
            OutcomeLookup::Outcome(outcome) => outcome,
            OutcomeLookup::Missing => return Native::from(()),
            OutcomeLookup::Pending(value) => return value,
        };
        let Facets { http, pg, py } = outcome.facets();
        let value = |field: &Option<Value>| field.as_ref().map_or(Native::from(()), convert::to_native);
        match name {
            "http" => value(http),
            "pg" => value(pg),
            "py" => value(py),
            _ => meta(&outcome),
        }
    }

    /// Returns a selected field, or a field in the reference to a stored body.
    fn extracted(&self, name: &str) -> Option<Native> {
        // A failure has no fields, so its outcome is not loaded.
        if !self.envelope.is_ok || matches!(self.envelope.content, EnvelopeContent::Parts(_)) {
            return None;
        }
        match self.outcome() {
            OutcomeLookup::Outcome(outcome) => match outcome.as_ref() {
                Outcome::Ok(success) => success.extracted().get(name).map(convert::to_native),
                Outcome::Error(_) => None,
            },
            OutcomeLookup::Missing => None,
            OutcomeLookup::Pending(value) => Some(value),
        }
    }
}

/// Returns the counts of a loop's iterations from its final event, without the results.
fn loop_stats(pointer: &LoopPointer) -> Option<Native> {
    let loaded = session::with_session(|session| session.loaded.clone());
    if let Some(stats) = loaded.loop_stats.get(&pointer.done) {
        return Some(Native::from(Serde(stats)));
    }
    match loaded.loops.get(&pointer.done) {
        Some(results) => defined_attribute(results.native(), "stats"),
        None => Some(pending_value(Need::LoopStats(pointer.clone()))),
    }
}

/// Adds `body` to an HTTP response as a second name of `data`, without copying the value.
fn with_body(response: Native) -> Native {
    if reference::is_pending(&response) {
        session::with_session(|session| session.has_http_response = true);
        return response;
    }
    let data = || defined_attribute(&response, "data");
    with_key(response.clone(), "body", data)
}

/// Adds a key to a map that does not have it; returns other values unchanged. Copies nothing inside.
fn with_key(map: Native, key: &str, value: impl FnOnce() -> Option<Native>) -> Native {
    if map.kind() != ValueKind::Map || defined_attribute(&map, key).is_some() {
        return map;
    }
    let (Some(value), Ok(keys)) = (value(), map.try_iter()) else {
        return map;
    };
    let entries = keys.filter_map(|key| Some((key.clone(), map.get_item(&key).ok()?)));
    let added = (Native::from(key), value);
    Native::from_pairs(entries.chain([added]))
}

/// Returns the outcome that an event records, if it is loaded.
fn recorded_outcome(seq: Seq) -> OutcomeLookup {
    let loaded = session::with_session(|session| session.loaded.clone());
    match loaded.outcomes.get(&seq) {
        Some(outcome) => OutcomeLookup::Outcome(outcome.clone()),
        None => OutcomeLookup::Pending(pending_value(Need::Outcome(seq))),
    }
}

/// Returns a value in memory as a file.
fn value_file(value: &Native) -> Option<Native> {
    if value.is_undefined() || value.is_none() {
        return None;
    }
    if reference::is_pending(value) {
        return Some(value.clone());
    }
    let value = convert::to_json(value).ok()?;
    let key = format!("value {value}");
    Some(file_value(FileNeed {
        key,
        content: FileContent::Value(value),
    }))
}

fn meta(outcome: &Outcome) -> Native {
    let meta = match outcome {
        Outcome::Ok(success) => &success.meta,
        Outcome::Error(failure) => &failure.meta,
    };
    Native::from_pairs(
        meta.iter()
            .map(|(key, value)| (key.as_str(), convert::to_native(value))),
    )
}

/// `x.data`: looks up keys in the result first, then in the result's `data`.
#[derive(Debug)]
pub(crate) struct DataView(Envelope);

impl DataView {
    /// Returns the value as a whole.
    pub(crate) fn whole_value(&self) -> Native {
        data_or_whole(&self.source())
    }

    fn view(&self) -> EnvelopeView {
        EnvelopeView::new(self.0.clone(), Precedence::Result)
    }

    /// Loaded only when needed; a file does not need it.
    fn source(&self) -> Native {
        self.view().data_source()
    }
}

impl Object for DataView {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Native) -> Option<Native> {
        match key.as_str() {
            Some(name) => self.get_value_by_str(name),
            None => defined_item(&self.whole_value(), key),
        }
    }

    fn get_value_by_str(self: &Arc<Self>, name: &str) -> Option<Native> {
        if name == "_file" {
            return match self.view().reference() {
                Some(reference) => Some(body_file(BodyPath::data_of(reference))),
                None => value_file(&self.whole_value()),
            };
        }
        attribute_or_data(&self.source(), name)
    }

    fn render(self: &Arc<Self>, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(&self.whole_value(), f)
    }
}
