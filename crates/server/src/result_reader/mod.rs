//! Results read: found by their address, and handed out piece by piece, however many parts they have.
//!
//! Enters: an execution and which of its results is meant. Leaves: bytes of JSON. What is inline is found through the
//! log, what is outside by its reference, and a manifest by its rule; nothing of a list is held but one part at a time.

mod address;
mod entries;
mod located;
mod lookup;
mod outline;
mod part_stream;
mod parts;
mod quoting;
mod reader;

pub use address::{ResultAddress, ResultSelector};
pub use entries::ReferencePage;
pub use located::LocatedResult;
pub use outline::{ExecutionOutline, LoopOutline};
pub(crate) use part_stream::wrap_stream;
pub(crate) use parts::{PARTS_AT_ONCE, PartIndex};
pub use reader::ResultReader;
