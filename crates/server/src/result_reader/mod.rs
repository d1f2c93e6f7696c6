//! Reads results: finds them by their address and streams them, however many parts they have.
//!
//! Input: an execution and an address. Output: bytes of JSON. Inline results are found through the log, bodies by their
//! reference, and the parts of a manifest by its rule. Only a few parts of a list are in memory at a time.

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
