//! Unpacks events in one pass over the text, which it borrows; payloads are parsed directly into their types.

use std::borrow::Cow;
use std::fmt;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer as _};
use serde_json::value::RawValue;

use crate::event::codec::checksum;
use crate::event::{Event, EventBody, EventKind, EventLocation, EventSource, UnknownKindError};
use crate::id::{EventId, ExecutionId, Name, Seq, WorkerId};
use crate::raw::RawJson;
use crate::time::Time;

/// Why a row of the log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// The text is not a packed append.
    #[error("a log row is malformed")]
    Malformed(#[source] serde_json::Error),
    /// The row was modified after it was written, or moved.
    #[error("a log row does not match its checksum")]
    ChecksumMismatch,
    /// This binary does not know the kind of an event.
    #[error(transparent)]
    UnknownKind(#[from] UnknownKindError),
    /// The payload of an event does not match its kind.
    #[error("the payload of event {seq}, `{kind}`, is malformed")]
    InvalidPayload {
        /// The event.
        seq: Seq,
        /// Its kind.
        kind: EventKind,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Append<'a> {
    b: i64,
    t: i64,
    r: i64,
    #[serde(default, borrow)]
    s: Option<Cow<'a, str>>,
    #[serde(default)]
    n: u32,
    #[serde(default, borrow)]
    w: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    z: Option<Cow<'a, str>>,
    /// The events, which are parsed one by one.
    #[serde(borrow)]
    e: &'a RawValue,
    /// Verified before the text is parsed.
    #[serde(default, rename = "y")]
    _checksum: u32,
}

#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    k: Cow<'a, str>,
    i: Option<i64>,
    #[serde(default)]
    t: i64,
    #[serde(default)]
    r: i64,
    c: Option<u64>,
    #[serde(default)]
    o: u8,
    #[serde(borrow)]
    w: Option<Cow<'a, str>>,
    #[serde(borrow)]
    s: Option<Cow<'a, str>>,
    n: Option<u32>,
    x: Option<u64>,
    #[serde(borrow)]
    l: Option<Cow<'a, str>>,
    v: Option<u32>,
    a: Option<u32>,
    g: Option<i64>,
    d: Option<u64>,
    #[serde(borrow)]
    m: Option<&'a RawValue>,
    #[serde(borrow)]
    p: Option<&'a RawValue>,
}

/// The fields that the events of one append share.
struct AppendDefaults {
    execution: ExecutionId,
    event_id: i64,
    timestamp: i64,
    recorded_at: i64,
    step: Option<Name>,
    run: u32,
    worker: Option<WorkerId>,
    trace: Option<Name>,
    task: Option<Name>,
}

/// Kind and location of a packed event, available before its payload is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventHead<'a> {
    /// Its position in the log.
    pub seq: Seq,
    /// Its kind.
    pub kind: EventKind,
    /// The step.
    pub step: Option<&'a str>,
    /// The run of the step.
    pub run: u32,
    /// The iteration.
    pub iteration: Option<u64>,
}

impl<'a> EventHead<'a> {
    /// Returns the head of an unpacked event.
    pub fn from_event(event: &'a Event) -> Self {
        Self {
            seq: event.seq,
            kind: event.kind(),
            step: event.location.step.as_ref().map(Name::as_str),
            run: event.location.run,
            iteration: event.location.iteration,
        }
    }
}

/// Some events of one append.
#[derive(Debug)]
pub struct Unpacked {
    /// The selected events, in order.
    pub events: Vec<Event>,
    /// Number of events in the append.
    pub total: usize,
}

/// Unpacks one append, whose first event has the given seq.
pub fn unpack(execution: ExecutionId, seq_first: Seq, body: &str) -> Result<Vec<Event>, CodecError> {
    let unpacked = unpack_selected(execution, seq_first, body, |_| true)?;
    Ok(unpacked.events)
}

/// Unpacks some events of one append; the payloads of the others are skipped.
pub fn unpack_selected(
    execution: ExecutionId,
    seq_first: Seq,
    body: &str,
    mut is_selected: impl FnMut(EventHead<'_>) -> bool,
) -> Result<Unpacked, CodecError> {
    checksum::verify_checksum(execution, seq_first, body)?;
    let append: Append<'_> = serde_json::from_str(body).map_err(CodecError::Malformed)?;
    let shared = AppendDefaults {
        execution,
        event_id: append.b,
        timestamp: append.t,
        recorded_at: append.r,
        step: append.s.as_deref().map(Name::from),
        run: append.n,
        worker: append.w.as_deref().map(|worker| WorkerId(worker.into())),
        trace: append.z.as_deref().map(Name::from),
        task: None,
    };
    let mut records = Records {
        shared,
        first: seq_first,
        total: 0,
        events: Vec::new(),
        is_selected: &mut is_selected,
        error: None,
    };
    let mut reader = serde_json::Deserializer::from_str(append.e.get());
    let read = reader.deserialize_seq(&mut records);
    match (records.error, read) {
        (Some(error), _) => Err(error),
        (None, Err(error)) => Err(CodecError::Malformed(error)),
        (None, Ok(())) => Ok(Unpacked {
            events: records.events,
            total: records.total,
        }),
    }
}

/// Reads the events of one append one by one; drops events that are not selected at once.
struct Records<'w> {
    shared: AppendDefaults,
    first: Seq,
    total: usize,
    events: Vec<Event>,
    is_selected: &'w mut dyn FnMut(EventHead<'_>) -> bool,
    error: Option<CodecError>,
}

impl<'de> Visitor<'de> for &mut Records<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(record) = list.next_element::<Record<'de>>()? {
            if let Err(error) = self.add(record) {
                self.error = Some(error);
                return Err(serde::de::Error::custom("an event cannot be read"));
            }
        }
        Ok(())
    }
}

impl Records<'_> {
    fn add(&mut self, record: Record<'_>) -> Result<(), CodecError> {
        let index = self.total;
        self.total += 1;
        let seq = Seq(self.first.0 + index as u64);
        let head = self.shared.head(seq, &record)?;
        let kind = head.kind;
        if (self.is_selected)(head) {
            let event = self.shared.read_event(seq, kind, index, record)?;
            self.events.push(event);
        }
        Ok(())
    }
}

impl AppendDefaults {
    fn head<'a>(&'a self, seq: Seq, record: &'a Record<'_>) -> Result<EventHead<'a>, CodecError> {
        let kind =
            EventKind::from_stored_name(&record.k).ok_or_else(|| UnknownKindError(record.k.clone().into_owned()))?;
        let (step, run) = self.step_run(record);
        Ok(EventHead {
            seq,
            kind,
            step,
            run,
            iteration: record.x,
        })
    }

    /// The step of an event, and its run.
    fn step_run<'a>(&'a self, record: &'a Record<'_>) -> (Option<&'a str>, u32) {
        match record.s.as_deref() {
            Some("") => (None, record.n.unwrap_or(0)),
            Some(step) => (Some(step), record.n.unwrap_or(0)),
            None => {
                let step = self.step.as_ref().map(Name::as_str);
                (step, record.n.unwrap_or(self.run))
            }
        }
    }

    fn read_event(&mut self, seq: Seq, kind: EventKind, index: usize, record: Record<'_>) -> Result<Event, CodecError> {
        let payload = record.p.map_or("{}", RawValue::get);
        let body = EventBody::read(kind, payload).map_err(|source| CodecError::InvalidPayload { seq, kind, source })?;
        let offset = record.i.unwrap_or_else(|| i64::try_from(index).unwrap_or(i64::MAX));
        let cause = record.c.unwrap_or(seq.0.saturating_sub(1));
        Ok(Event {
            event_id: EventId(self.event_id.wrapping_add(offset)),
            execution_id: self.execution,
            seq,
            cause_seq: (cause > 0).then_some(Seq(cause)),
            timestamp: Time(self.timestamp.wrapping_add(record.t)),
            recorded_at: Time(self.recorded_at.wrapping_add(record.r)),
            source: if record.o == 1 {
                EventSource::Worker
            } else {
                EventSource::Server
            },
            worker_id: self.worker_of(&record),
            trace_id: self.trace.clone(),
            duration_ms: record.d,
            meta: record.m.map(|meta| RawJson::from(meta.to_owned())),
            location: self.location_of(record),
            body,
        })
    }

    fn worker_of(&self, record: &Record<'_>) -> Option<WorkerId> {
        match record.w.as_deref() {
            Some("") => None,
            Some(worker) => Some(WorkerId(worker.into())),
            None if record.o == 1 => self.worker.clone(),
            None => None,
        }
    }

    fn location_of(&mut self, record: Record<'_>) -> EventLocation {
        let (step, run) = self.step_run(&record);
        let step = match record.s {
            Some(_) => step.map(Name::from),
            None => self.step.clone(),
        };
        let task = record.l.map(|label| self.shared_task_name(&label));
        let default = u32::from(task.is_some());
        EventLocation {
            step,
            run,
            iteration: record.x,
            visit: record.v.unwrap_or(default),
            attempt: record.a.unwrap_or(default),
            page: record.g,
            task,
        }
    }

    /// Returns the name of a task. Consecutive events are mostly about the same task, so they share it.
    fn shared_task_name(&mut self, label: &str) -> Name {
        match &self.task {
            Some(task) if *task == *label => task.clone(),
            _ => self.task.insert(Name::from(label)).clone(),
        }
    }
}
