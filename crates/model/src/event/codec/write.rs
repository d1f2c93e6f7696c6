//! Packs events. The writer is hand-written and uses one buffer, because every event of every run is packed.

use crate::event::codec::checksum;
use crate::event::{Event, EventKind, EventSource};
use crate::id::Name;

/// One append as stored in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedAppend {
    /// Its kinds, each once, as `,kind,kind,`, for searches by type.
    pub types: String,
    /// The events.
    pub body: String,
}

/// The fields that the events of one append share.
struct AppendHeader<'a> {
    event_id: i64,
    timestamp: i64,
    recorded_at: i64,
    step: Option<&'a Name>,
    run: u32,
    worker: Option<&'a str>,
    trace: Option<&'a Name>,
}

/// Packs the events of one append; they are of one execution and their seqs are consecutive.
pub fn pack(events: &[Event]) -> PackedAppend {
    let header = AppendHeader::from_events(events);
    let mut out = Vec::with_capacity(64 + 128 * events.len());
    header.write(&mut out);
    for (index, event) in events.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_event(&mut out, &header, index, event);
    }
    out.push(b']');
    if let Some(first) = events.first() {
        let checksum = checksum::checksum(first.execution_id, first.seq, &out);
        out.extend_from_slice(checksum::CHECKSUM_KEY.as_bytes());
        write_unsigned(&mut out, u64::from(checksum));
    }
    out.push(b'}');
    PackedAppend {
        types: kind_list(events),
        body: String::from_utf8(out).expect("JSON writers emit UTF-8"),
    }
}

fn kind_list(events: &[Event]) -> String {
    let mut used_kinds = 0_u64;
    let mut types = String::from(",");
    for event in events {
        let kind: EventKind = event.kind();
        let bit = 1_u64 << (kind as u32);
        if used_kinds & bit == 0 {
            used_kinds |= bit;
            types.push_str(kind.name());
            types.push(',');
        }
    }
    types
}

impl<'a> AppendHeader<'a> {
    fn from_events(events: &'a [Event]) -> Self {
        let first = events.first();
        let first_with_step = events.iter().find(|event| event.location.step.is_some());
        Self {
            event_id: first.map_or(0, |event| event.event_id.0),
            timestamp: first.map_or(0, |event| event.timestamp.0),
            recorded_at: first.map_or(0, |event| event.recorded_at.0),
            step: first_with_step.and_then(|event| event.location.step.as_ref()),
            run: first_with_step.map_or(0, |event| event.location.run),
            worker: events
                .iter()
                .find_map(|event| event.worker_id.as_ref().map(|worker| &*worker.0)),
            trace: first.and_then(|event| event.trace_id.as_ref()),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"b\":");
        write_integer(out, self.event_id);
        write_field(out, "t", self.timestamp);
        write_field(out, "r", self.recorded_at);
        if let Some(step) = self.step {
            write_text_field(out, "s", step.as_str());
            write_field(out, "n", i64::from(self.run));
        }
        if let Some(worker) = self.worker {
            write_text_field(out, "w", worker);
        }
        if let Some(trace) = self.trace {
            write_text_field(out, "z", trace.as_str());
        }
        out.extend_from_slice(b",\"e\":[");
    }
}

fn write_event(out: &mut Vec<u8>, header: &AppendHeader<'_>, index: usize, event: &Event) {
    out.extend_from_slice(b"{\"k\":\"");
    out.extend_from_slice(event.kind().name().as_bytes());
    out.push(b'"');
    let offset = event.event_id.0.wrapping_sub(header.event_id);
    if usize::try_from(offset) != Ok(index) {
        write_field(out, "i", offset);
    }
    write_nonzero_field(out, "t", event.timestamp.0.wrapping_sub(header.timestamp));
    write_nonzero_field(out, "r", event.recorded_at.0.wrapping_sub(header.recorded_at));
    let cause = event.cause_seq.map_or(0, |seq| seq.0);
    if cause.wrapping_add(1) != event.seq.0 || cause == 0 {
        write_unsigned_field(out, "c", cause);
    }
    write_location(out, header, event);
    if let Some(duration) = event.duration_ms {
        write_unsigned_field(out, "d", duration);
    }
    if let Some(meta) = &event.meta {
        out.extend_from_slice(b",\"m\":");
        out.extend_from_slice(meta.text().as_bytes());
    }
    write_payload(out, event);
    out.push(b'}');
}

/// Writes the source, the worker and the location of an event.
fn write_location(out: &mut Vec<u8>, header: &AppendHeader<'_>, event: &Event) {
    let is_worker = event.source == EventSource::Worker;
    if is_worker {
        write_field(out, "o", 1);
    }
    let worker = event.worker_id.as_ref().map(|worker| &*worker.0);
    let implied = if is_worker { header.worker } else { None };
    if worker != implied {
        write_text_field(out, "w", worker.unwrap_or_default());
    }
    let location = &event.location;
    if location.step.as_ref() != header.step {
        write_text_field(out, "s", location.step.as_ref().map_or("", Name::as_str));
        write_nonzero_field(out, "n", i64::from(location.run));
    } else if location.run != header.run {
        write_field(out, "n", i64::from(location.run));
    }
    if let Some(iteration) = location.iteration {
        write_unsigned_field(out, "x", iteration);
    }
    if let Some(task) = &location.task {
        write_text_field(out, "l", task.as_str());
    }
    let default = u32::from(location.task.is_some());
    if location.visit != default {
        write_field(out, "v", i64::from(location.visit));
    }
    if location.attempt != default {
        write_field(out, "a", i64::from(location.attempt));
    }
    if let Some(page) = location.page {
        write_field(out, "g", page);
    }
}

fn write_payload(out: &mut Vec<u8>, event: &Event) {
    let before = out.len();
    out.extend_from_slice(b",\"p\":");
    let start = out.len();
    event.body.write(&mut *out).expect("plain data serializes to JSON");
    if &out[start..] == b"{}" {
        out.truncate(before);
    }
}

fn write_key(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

fn write_field(out: &mut Vec<u8>, name: &str, value: i64) {
    write_key(out, name);
    write_integer(out, value);
}

fn write_nonzero_field(out: &mut Vec<u8>, name: &str, value: i64) {
    if value != 0 {
        write_field(out, name, value);
    }
}

fn write_unsigned_field(out: &mut Vec<u8>, name: &str, value: u64) {
    write_key(out, name);
    write_unsigned(out, value);
}

fn write_text_field(out: &mut Vec<u8>, name: &str, value: &str) {
    write_key(out, name);
    let is_plain = |byte: u8| byte >= 0x20 && byte != b'"' && byte != b'\\';
    if value.bytes().all(is_plain) {
        out.push(b'"');
        out.extend_from_slice(value.as_bytes());
        out.push(b'"');
    } else {
        serde_json::to_writer(out, value).expect("text serializes to JSON");
    }
}

fn write_integer(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    write_unsigned(out, value.unsigned_abs());
}

fn write_unsigned(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0_u8; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + u8::try_from(value % 10).expect("a digit is below ten");
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}
