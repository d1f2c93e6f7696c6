//! The bus: hints that there is work, and events for whoever listens. Nothing depends on it; the store is the truth.

mod carry;
mod nats;
mod publication;

pub use carry::{Bus, BusError};
pub use nats::Nats;
pub use publication::{Publication, published};
