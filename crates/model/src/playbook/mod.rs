//! The parts of playbooks that events record and stores use: modes, directives, and how a result is stored.

mod modes;
mod result_control;
mod selection;

pub use modes::{Backoff, Directive, FailureMode, LoopMode, RouteMode};
pub use result_control::ResultControl;
pub use selection::{InvalidPathError, SelectEntry, Selection};
