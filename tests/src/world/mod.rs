//! A simulated cluster in one thread: the engine and a store in memory, virtual time, and workers that run pipelines
//! with scripted outcomes instead of tools. The same calls in the same order produce the same logs.

mod load;
mod outcome_source;
mod pipeline;
mod rendered_call;
mod reruns;
mod server;
mod server_tasks;
mod tamper;
mod world_command;
mod world_store;

pub use load::{loop_results, read_log};
pub use outcome_source::{AttemptQuery, OutcomeSource, TimedOutcome};
pub use server::{InputResult, LostReply, WorldError, WorldServer};
pub use tamper::{NoTamper, Tamper};
pub use world_command::{ActionResult, Order, WorldCommand};
pub use world_store::WorldStore;
