//! What needs more than one crate to be tested: conformance cases, the simulator, generated pages, house rules.

pub mod conformance;
pub mod sim;
pub mod world;
