//! Results read: found by their address, and handed out piece by piece, however many parts they have.
//!
//! Enters: an execution and which of its results is meant. Leaves: bytes of JSON. What is inline is found through the
//! log, what is outside by its reference, and a manifest by its rule; nothing of a list is held but one part at a time.

mod address;
mod entries;
mod found;
mod lookup;
mod outline;
mod parts;
mod pieces;
mod quoted;
mod reader;

pub use address::{ResultAddress, ResultPlace};
pub use entries::Listed;
pub use found::Found;
pub use outline::{LoopOutline, RunOutline};
pub(crate) use parts::{PARTS_AT_ONCE, Parts};
pub(crate) use pieces::between;
pub use reader::Reader;
