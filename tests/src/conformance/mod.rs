//! Conformance cases as data: a playbook, the outcomes of its tasks, and the expected log.
//!
//! A case is a directory `tests/conformance/<area>/<case>/`. [`Case`] reads it, [`run`] runs it with the engine alone,
//! [`normalise`] makes logs from different sources comparable.

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
