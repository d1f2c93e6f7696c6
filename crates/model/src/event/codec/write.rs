//! Packing: written by hand into one buffer, because every event of every run passes here.

use crate::event::codec::checksum;
use crate::event::{Event, Kind, Source};
use crate::id::Name;

/// One append as the log keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// The kinds in it, each once, as `,kind,kind,`: what a search by type looks at.
    pub types: String,
    /// The events.
    pub body: String,
}

/// What the events of one append share.
struct Header<'a> {
    event_id: i64,
    timestamp: i64,
    recorded_at: i64,
    step: Option<&'a Name>,
    run: u32,
    worker: Option<&'a str>,
    trace: Option<&'a Name>,
}

/// Packs the events of one append; they are of one execution and their seqs are consecutive.
pub fn pack(events: &[Event]) -> Packed {
    let header = Header::of(events);
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
        out.extend_from_slice(checksum::KEY.as_bytes());
        unsigned(&mut out, u64::from(checksum));
    }
    out.push(b'}');
    Packed {
        types: types(events),
        body: String::from_utf8(out).expect("JSON writers emit UTF-8"),
    }
}

fn types(events: &[Event]) -> String {
    let mut seen = 0_u64;
    let mut types = String::from(",");
    for event in events {
        let kind: Kind = event.kind();
        let bit = 1_u64 << (kind as u32);
        if seen & bit == 0 {
            seen |= bit;
            types.push_str(kind.name());
            types.push(',');
        }
    }
    types
}

impl<'a> Header<'a> {
    fn of(events: &'a [Event]) -> Self {
        let first = events.first();
        let placed = events.iter().find(|event| event.at.step.is_some());
        Self {
            event_id: first.map_or(0, |event| event.event_id.0),
            timestamp: first.map_or(0, |event| event.timestamp.0),
            recorded_at: first.map_or(0, |event| event.recorded_at.0),
            step: placed.and_then(|event| event.at.step.as_ref()),
            run: placed.map_or(0, |event| event.at.run),
            worker: events
                .iter()
                .find_map(|event| event.worker_id.as_ref().map(|worker| &*worker.0)),
            trace: first.and_then(|event| event.trace_id.as_ref()),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"b\":");
        integer(out, self.event_id);
        field(out, "t", self.timestamp);
        field(out, "r", self.recorded_at);
        if let Some(step) = self.step {
            text(out, "s", step.as_str());
            field(out, "n", i64::from(self.run));
        }
        if let Some(worker) = self.worker {
            text(out, "w", worker);
        }
        if let Some(trace) = self.trace {
            text(out, "z", trace.as_str());
        }
        out.extend_from_slice(b",\"e\":[");
    }
}

fn write_event(out: &mut Vec<u8>, header: &Header<'_>, index: usize, event: &Event) {
    out.extend_from_slice(b"{\"k\":\"");
    out.extend_from_slice(event.kind().name().as_bytes());
    out.push(b'"');
    let offset = event.event_id.0.wrapping_sub(header.event_id);
    if usize::try_from(offset) != Ok(index) {
        field(out, "i", offset);
    }
    nonzero(out, "t", event.timestamp.0.wrapping_sub(header.timestamp));
    nonzero(
        out,
        "r",
        event.recorded_at.0.wrapping_sub(header.recorded_at),
    );
    let cause = event.cause_seq.map_or(0, |seq| seq.0);
    if cause.wrapping_add(1) != event.seq.0 || cause == 0 {
        unsigned_field(out, "c", cause);
    }
    write_place(out, header, event);
    if let Some(duration) = event.duration_ms {
        unsigned_field(out, "d", duration);
    }
    if let Some(meta) = &event.meta {
        out.extend_from_slice(b",\"m\":");
        out.extend_from_slice(meta.text().as_bytes());
    }
    write_payload(out, event);
    out.push(b'}');
}

/// Who emitted it, and where it happened.
fn write_place(out: &mut Vec<u8>, header: &Header<'_>, event: &Event) {
    let is_worker = event.source == Source::Worker;
    if is_worker {
        field(out, "o", 1);
    }
    let worker = event.worker_id.as_ref().map(|worker| &*worker.0);
    let implied = if is_worker { header.worker } else { None };
    if worker != implied {
        text(out, "w", worker.unwrap_or_default());
    }
    let at = &event.at;
    if at.step.as_ref() != header.step {
        text(out, "s", at.step.as_ref().map_or("", Name::as_str));
        nonzero(out, "n", i64::from(at.run));
    } else if at.run != header.run {
        field(out, "n", i64::from(at.run));
    }
    if let Some(iteration) = at.iteration {
        unsigned_field(out, "x", iteration);
    }
    if let Some(task) = &at.task {
        text(out, "l", task.as_str());
    }
    let usual = u32::from(at.task.is_some());
    if at.visit != usual {
        field(out, "v", i64::from(at.visit));
    }
    if at.attempt != usual {
        field(out, "a", i64::from(at.attempt));
    }
    if let Some(page) = at.page {
        field(out, "g", page);
    }
}

fn write_payload(out: &mut Vec<u8>, event: &Event) {
    let before = out.len();
    out.extend_from_slice(b",\"p\":");
    let start = out.len();
    event
        .body
        .write(&mut *out)
        .expect("plain data serialises to JSON");
    if &out[start..] == b"{}" {
        out.truncate(before);
    }
}

fn key(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

fn field(out: &mut Vec<u8>, name: &str, value: i64) {
    key(out, name);
    integer(out, value);
}

fn nonzero(out: &mut Vec<u8>, name: &str, value: i64) {
    if value != 0 {
        field(out, name, value);
    }
}

fn unsigned_field(out: &mut Vec<u8>, name: &str, value: u64) {
    key(out, name);
    unsigned(out, value);
}

fn text(out: &mut Vec<u8>, name: &str, value: &str) {
    key(out, name);
    let is_plain = |byte: u8| byte >= 0x20 && byte != b'"' && byte != b'\\';
    if value.bytes().all(is_plain) {
        out.push(b'"');
        out.extend_from_slice(value.as_bytes());
        out.push(b'"');
    } else {
        serde_json::to_writer(out, value).expect("text serialises to JSON");
    }
}

fn integer(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    unsigned(out, value.unsigned_abs());
}

fn unsigned(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(value % 10).expect("a digit is below ten");
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}
