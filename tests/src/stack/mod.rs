//! Parts of a whole stack under test: virtual time, a store with faults, and a transport that can be cut.

mod killable_transport;
mod pausing_store;
mod virtual_clock;

pub use killable_transport::KillableTransport;
pub use pausing_store::PausingStore;
pub use virtual_clock::{VirtualClock, run_with_time_stopped};
