//! Unpacking: one borrowed pass over the text, payloads read straight into their types.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::event::codec::checksum;
use crate::event::{At, Body, Event, Kind, Source, UnknownKind};
use crate::id::{EventId, ExecutionId, Name, Seq, WorkerId};
use crate::raw::Raw;
use crate::time::Time;

/// Text in the log that is not a packed append.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// Not the form described above.
    #[error("a log row is malformed")]
    Malformed(#[source] serde_json::Error),
    /// Text that was changed after it was written, or that belongs elsewhere in the log.
    #[error("a log row does not match its checksum")]
    Checksum,
    /// A kind this binary does not know.
    #[error(transparent)]
    Kind(#[from] UnknownKind),
    /// A payload that does not fit its kind.
    #[error("the payload of event {seq}, `{kind}`, is malformed")]
    Payload {
        /// Where.
        seq: Seq,
        /// Of what kind.
        kind: Kind,
        /// What is wrong.
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
    #[serde(borrow)]
    e: Vec<Record<'a>>,
    /// Compared before the rest is read.
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

/// What is shared by the events of one append, ready to be cloned into each.
struct Shared {
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

/// Unpacks one append, whose first event has the given seq.
pub fn unpack(
    execution: ExecutionId,
    seq_first: Seq,
    body: &str,
) -> Result<Vec<Event>, CodecError> {
    checksum::verify(execution, seq_first, body)?;
    let append: Append<'_> = serde_json::from_str(body).map_err(CodecError::Malformed)?;
    let mut shared = Shared {
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
    let mut events = Vec::with_capacity(append.e.len());
    for (index, record) in append.e.into_iter().enumerate() {
        events.push(shared.event(seq_first, index, record)?);
    }
    Ok(events)
}

impl Shared {
    fn event(&mut self, first: Seq, index: usize, record: Record<'_>) -> Result<Event, CodecError> {
        let seq = Seq(first.0 + index as u64);
        let kind =
            Kind::stored(&record.k).ok_or_else(|| UnknownKind(record.k.clone().into_owned()))?;
        let payload = record.p.map_or("{}", RawValue::get);
        let body = Body::read(kind, payload).map_err(|source| CodecError::Payload {
            seq,
            kind,
            source,
        })?;
        let offset = record
            .i
            .unwrap_or_else(|| i64::try_from(index).unwrap_or(i64::MAX));
        let cause = record.c.unwrap_or(seq.0.saturating_sub(1));
        Ok(Event {
            event_id: EventId(self.event_id.wrapping_add(offset)),
            execution_id: self.execution,
            seq,
            cause_seq: (cause > 0).then_some(Seq(cause)),
            timestamp: Time(self.timestamp.wrapping_add(record.t)),
            recorded_at: Time(self.recorded_at.wrapping_add(record.r)),
            source: if record.o == 1 {
                Source::Worker
            } else {
                Source::Server
            },
            worker_id: self.worker(&record),
            trace_id: self.trace.clone(),
            duration_ms: record.d,
            meta: record.m.map(|meta| Raw::from(meta.to_owned())),
            at: self.place(record),
            body,
        })
    }

    fn worker(&self, record: &Record<'_>) -> Option<WorkerId> {
        match record.w.as_deref() {
            Some("") => None,
            Some(worker) => Some(WorkerId(worker.into())),
            None if record.o == 1 => self.worker.clone(),
            None => None,
        }
    }

    fn place(&mut self, record: Record<'_>) -> At {
        let (step, run) = match record.s.as_deref() {
            Some("") => (None, record.n.unwrap_or(0)),
            Some(step) => (Some(Name::from(step)), record.n.unwrap_or(0)),
            None => (self.step.clone(), record.n.unwrap_or(self.run)),
        };
        let task = record.l.map(|label| self.task(&label));
        let usual = u32::from(task.is_some());
        At {
            step,
            run,
            iteration: record.x,
            visit: record.v.unwrap_or(usual),
            attempt: record.a.unwrap_or(usual),
            page: record.g,
            task,
        }
    }

    /// Neighbouring events mostly speak of the same task, so its name is shared.
    fn task(&mut self, label: &str) -> Name {
        match &self.task {
            Some(task) if *task == *label => task.clone(),
            _ => self.task.insert(Name::from(label)).clone(),
        }
    }
}
