//! Events: what happened, in one vocabulary.

mod body;
mod codec;
mod control;
mod envelope;
mod event_json;
mod kind;
mod reuse;
mod unique_key;

pub use body::*;
pub use codec::{CodecError, EventHead, PackedAppend, Unpacked, pack, unpack, unpack_selected};
pub use control::{PlaybookSwitched, StopRequest, UnchangedTasks};
pub use envelope::{
    Event, EventBody, EventLocation, EventStatus, EventWrites, RecordedResult, ReportedEvent, default_trace_id,
};
pub use event_json::failed_result;
pub use kind::{AllowedSource, EntityType, EventKind, EventSource, UnknownKindError};
pub use reuse::{
    InitialToken, RerunOrigin, ReusedIterationSet, ReusedIterations, ReusedPart, ReusedRecord, ReusedStep, TokenOrigin,
};
pub use unique_key::UniqueKey;
