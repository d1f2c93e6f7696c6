//! Tests that need more than one crate: conformance cases, the simulator, generated pages, project rules.

pub mod cli_sandbox;
pub mod conformance;
pub mod e2e;
pub mod http;
pub mod injection;
pub mod peers;
pub mod server_process;
pub mod sim;
pub mod small_disk;
pub mod stack;
