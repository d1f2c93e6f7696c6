//! Events: what happened, in one vocabulary.

mod body;
mod envelope;
mod kind;

pub use body::*;
pub use envelope::{At, Body, Event, Status};
pub use kind::{Emitter, EntityType, Kind, Source, UnknownKind};
