//! Events: what happened, in one vocabulary.

mod body;
mod codec;
mod envelope;
mod kind;
mod shown;

pub use body::*;
pub use codec::{CodecError, Packed, pack, unpack};
pub use envelope::{At, Body, Event, Status};
pub use kind::{Emitter, EntityType, Kind, Source, UnknownKind};
