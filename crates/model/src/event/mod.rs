//! Events: what happened, in one vocabulary.

mod body;
mod codec;
mod control;
mod envelope;
mod kind;
mod reuse;
mod shown;

pub use body::*;
pub use codec::{CodecError, EventHead, Packed, Unpacked, pack, unpack, unpack_wanted};
pub use control::{KeptTasks, StopRequested, Switched};
pub use envelope::{At, Body, Event, Status, own_trace};
pub use kind::{Emitter, EntityType, Kind, Source, UnknownKind};
pub use reuse::{
    CameFrom, PlacedToken, Rerun, Reused, ReusedItems, ReusedIterations, ReusedPart, ReusedStep,
};
pub use shown::failed_result;
