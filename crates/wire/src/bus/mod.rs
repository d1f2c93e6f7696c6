//! The message bus: notifications about new commands, and published events. The store is the source of truth; nothing
//! depends on the bus.

mod carry;
mod nats;
mod publication;

pub use carry::{Bus, BusError};
pub use nats::Nats;
pub use publication::{Publication, published};
