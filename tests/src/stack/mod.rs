//! Parts of a whole stack under test: virtual time, a store with faults, and a transport that can be cut.

mod call_location;
mod killable_transport;
mod pausing_store;
mod virtual_clock;

pub use call_location::CallLocation;
pub use killable_transport::KillableTransport;
pub use pausing_store::{CommitObserver, PausingStore};
pub use virtual_clock::{VirtualClock, run_with_time_stopped};
