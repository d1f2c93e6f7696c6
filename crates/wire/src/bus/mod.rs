//! The message bus: notifications about new commands, and published events. The store is the source of truth; nothing
//! depends on the bus.

mod interface;
mod nats;
mod publication;

pub use interface::{Bus, BusError};
pub use nats::NatsBus;
pub use publication::{Publication, to_publication};
