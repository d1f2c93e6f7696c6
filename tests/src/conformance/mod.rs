//! Conformance cases as data: a playbook, what its tasks answer, and the log that must come of it.
//!
//! A case is a folder under `tests/conformance/<area>/<case>/`. [`Case`] reads it, [`run`] runs it with the engine
//! alone, [`normalise`] makes logs of any origin comparable.

mod agenda;
mod case;
mod normal;
mod run;
mod script;
mod shown;

pub use agenda::{Again, Agenda, Happening, Trigger, What};
pub use case::{Case, CaseError, case_name, cases};
pub use normal::{Log, normalise};
pub use run::{Ran, run};
pub use script::{Script, ScriptedTool};
