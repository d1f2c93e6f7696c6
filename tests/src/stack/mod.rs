//! Parts of a whole stack under test: a server, virtual time, a store with faults, and a transport that can be cut.

mod call_location;
mod killable_transport;
mod local_api;
mod pausing_store;
mod virtual_clock;

pub use call_location::CallLocation;
pub use killable_transport::KillableTransport;
pub use local_api::{LocalApi, server_config};
pub use pausing_store::{CommitObserver, PausingStore};
pub use virtual_clock::{VirtualClock, run_with_time_stopped};
