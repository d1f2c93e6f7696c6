//! The envelope view: how templates see an outcome, and bodies that load when touched.

use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr, Serde, Value as Native};
use serde_json::Value;

use crate::id::Seq;
use crate::outcome::{Facets, Outcome};
use crate::result_ref::ResultRef;
use crate::template::convert::{self, Secret};
use crate::template::gathered::Part;
use crate::template::reference;
use crate::template::reference::{
    Bound, Reference, attribute, body, body_file, data_or_whole, either, file, item, known, pending,
};
use crate::template::scope::{Content, Envelope, FileNeed, FileOf, Need};
use crate::template::session;

/// A word that has other spellings: an event's name, a status. Equal to each, printed as the first.
#[derive(Debug)]
pub(crate) struct Word {
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
}

impl Word {
    /// Whether `text` is one of its spellings.
    pub(crate) fn answers_to(&self, text: &str) -> bool {
        self.name == text || self.aliases.contains(&text)
    }

    /// How an ending is called.
    pub(crate) fn status(is_ok: bool) -> Native {
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

impl Object for Word {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// An outcome, seen as templates do.
#[derive(Debug)]
pub(crate) struct View(pub(crate) Envelope);

/// An envelope as a template's value.
pub(crate) fn view(envelope: &Envelope) -> Native {
    Native::from_object(View(envelope.clone()))
}

/// The value that stands for `value` where it is used whole: an envelope is its result.
pub(crate) fn whole(value: &Native) -> Native {
    let Some(object) = value.as_object() else {
        return value.clone();
    };
    if let Some(view) = object.downcast_ref::<View>() {
        view.whole()
    } else if let Some(reference) = object.downcast_ref::<Reference>() {
        reference.body()
    } else if let Some(data) = object.downcast_ref::<DataView>() {
        data.whole()
    } else if let Some(word) = object.downcast_ref::<Word>() {
        Native::from(word.name)
    } else if let Some(secret) = object.downcast_ref::<Secret>() {
        secret.take()
    } else {
        value.clone()
    }
}

impl Object for View {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Native) -> Option<Native> {
        match key.as_str() {
            Some(name) => self.get_value_by_str(name),
            None => item(&self.result(), key),
        }
    }

    fn get_value_by_str(self: &Arc<Self>, name: &str) -> Option<Native> {
        self.attribute(name)
    }

    fn render(self: &Arc<Self>, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(&self.whole(), f)
    }
}

/// An outcome, or what stands in its place.
enum Found {
    Outcome(Arc<Outcome>),
    Nothing,
    Pending(Native),
}

impl View {
    fn attribute(&self, name: &str) -> Option<Native> {
        if name == "status" {
            return Some(Word::status(self.0.is_ok));
        }
        match name {
            "result" => Some(self.result()),
            "data" => Some(self.data()),
            "error" => Some(self.error()),
            "meta" | "context" | "http" | "pg" | "py" => self.field(name),
            "ref" | "reference" | "_ref" | "_uri" | "_store" | "_preview" => self
                .reference()
                .and_then(|reference| known(&reference, name))
                .or_else(|| self.inline(name)),
            "_file" => match self.reference() {
                Some(reference) => known(&reference, name),
                None => value_file(&self.result()),
            },
            _ => self
                .label(name)
                .or_else(|| self.extracted(name))
                .or_else(|| self.inline(name)),
        }
    }

    /// `x.<label>` and `x.results`: the tasks of a step.
    fn label(&self, name: &str) -> Option<Native> {
        let labels = &self.0.labels;
        if let Some((_, envelope)) = labels.iter().find(|(label, _)| label.as_str() == name) {
            return Some(view(envelope));
        }
        let named = labels
            .iter()
            .map(|(label, envelope)| (label.as_str(), view(envelope)));
        (name == "results" && !labels.is_empty()).then(|| Native::from_pairs(named))
    }

    fn outcome(&self) -> Found {
        match &self.0.content {
            Content::Outcome(outcome) => Found::Outcome(outcome.clone()),
            Content::Event(seq) => recorded(*seq),
            Content::Parts(gathered) => match gathered.latest() {
                Some(Part::Outcome(outcome)) => Found::Outcome(outcome.clone()),
                Some(Part::Event(seq)) => recorded(*seq),
                None => Found::Nothing,
            },
            Content::Error(_) | Content::Loop(_) | Content::Empty => Found::Nothing,
        }
    }

    fn reference(&self) -> Option<ResultRef> {
        if let Content::Parts(_) = &self.0.content {
            return None;
        }
        match self.outcome() {
            Found::Outcome(outcome) => match outcome.as_ref() {
                Outcome::Ok(success) => success.reference.as_deref().cloned(),
                Outcome::Error(_) => None,
            },
            Found::Nothing | Found::Pending(_) => None,
        }
    }

    /// What it is where it is used whole: the result, with its status beside it where that is wanted.
    fn whole(&self) -> Native {
        if let (true, Content::Outcome(outcome)) = (self.0.shows_status, &self.0.content)
            && let Outcome::Ok(success) = outcome.as_ref()
            && let (Value::Object(map), None) = (&success.result, &success.reference)
            && !map.contains_key("status")
        {
            let mut map = map.clone();
            map.insert("status".to_owned(), "ok".into());
            return convert::to_native(&Value::Object(map));
        }
        self.result()
    }

    /// The raw result.
    fn result(&self) -> Native {
        match &self.0.content {
            Content::Loop(pointer) => {
                let loaded = session::with(|session| session.loaded.clone());
                return match loaded.loops.get(&pointer.done) {
                    Some(results) => attribute(results.native(), "results").unwrap_or_default(),
                    None => pending(Need::Loop(pointer.clone())),
                };
            }
            Content::Parts(gathered) => return gathered.native(),
            Content::Error(_) | Content::Empty => return Native::from(()),
            Content::Outcome(_) | Content::Event(_) => {}
        }
        match self.outcome() {
            Found::Outcome(outcome) => match outcome.as_ref() {
                Outcome::Ok(success) => match &success.reference {
                    Some(reference) => body(reference),
                    None => session::converted(&outcome, &success.result),
                },
                Outcome::Error(_) => Native::from(()),
            },
            Found::Nothing => Native::from(()),
            Found::Pending(value) => value,
        }
    }

    /// `data`: the result's own `data` where it has one, else the result; its keys reach both.
    fn data(&self) -> Native {
        Native::from_object(DataView(self.0.clone()))
    }

    fn error(&self) -> Native {
        if self.0.is_ok {
            return Native::from(());
        }
        if let Content::Error(error) = &self.0.content {
            return convert::to_native(error);
        }
        match self.outcome() {
            Found::Outcome(outcome) => Native::from(Serde(outcome.failure())),
            Found::Nothing => Native::from(()),
            Found::Pending(value) => value,
        }
    }

    fn field(&self, name: &str) -> Option<Native> {
        let outcome = match self.outcome() {
            Found::Outcome(outcome) => outcome,
            Found::Nothing => return Some(Native::from(())),
            Found::Pending(value) => return Some(value),
        };
        let Facets { http, pg, py } = outcome.facets();
        let value =
            |field: &Option<Value>| field.as_ref().map_or(Native::from(()), convert::to_native);
        match name {
            "http" => Some(value(http)),
            "pg" => Some(value(pg)),
            "py" => Some(value(py)),
            "meta" => Some(meta(&outcome)),
            _ => self
                .inline(name)
                .or_else(|| attribute(&meta(&outcome), name)),
        }
    }

    fn extracted(&self, name: &str) -> Option<Native> {
        if let (Content::Loop(pointer), "stats" | "results") = (&self.0.content, name) {
            let loaded = session::with(|session| session.loaded.clone());
            return match loaded.loops.get(&pointer.done) {
                Some(results) => attribute(results.native(), name),
                None => Some(pending(Need::Loop(pointer.clone()))),
            };
        }
        let reference = self.reference()?;
        reference.extracted.get(name).map(convert::to_native)
    }

    /// Any other attribute: the result's, then that of the result's `data`.
    fn inline(&self, name: &str) -> Option<Native> {
        either(&self.result(), name)
    }
}

/// The outcome that an event records, if it is loaded.
fn recorded(seq: Seq) -> Found {
    let loaded = session::with(|session| session.loaded.clone());
    match loaded.outcomes.get(&seq) {
        Some(outcome) => Found::Outcome(outcome.clone()),
        None => Found::Pending(pending(Need::Outcome(seq))),
    }
}

/// A value at hand as a file.
fn value_file(value: &Native) -> Option<Native> {
    if value.is_undefined() || value.is_none() {
        return None;
    }
    if reference::is_pending(value) {
        return Some(value.clone());
    }
    let value = convert::to_json(value).ok()?;
    let key = format!("value {value}");
    Some(file(FileNeed {
        key,
        of: FileOf::Value(value),
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

/// `x.data`: looks in the result first, then in the result's `data`.
#[derive(Debug)]
pub(crate) struct DataView(Envelope);

impl DataView {
    /// The value where it is used whole.
    pub(crate) fn whole(&self) -> Native {
        data_or_whole(&self.result())
    }

    /// Read only when it is needed: what asks for a file does not.
    fn result(&self) -> Native {
        View(self.0.clone()).result()
    }
}

impl Object for DataView {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Native) -> Option<Native> {
        match key.as_str() {
            Some(name) => self.get_value_by_str(name),
            None => item(&self.whole(), key),
        }
    }

    fn get_value_by_str(self: &Arc<Self>, name: &str) -> Option<Native> {
        if name == "_file" {
            return match View(self.0.clone()).reference() {
                Some(reference) => Some(body_file(Bound::data(reference))),
                None => value_file(&self.whole()),
            };
        }
        either(&self.result(), name)
    }

    fn render(self: &Arc<Self>, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(&self.whole(), f)
    }
}
