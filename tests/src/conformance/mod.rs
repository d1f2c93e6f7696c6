//! Conformance cases as data: a playbook, the outcomes of its tasks, and the expected log.
//!
//! A case is a directory `tests/conformance/<area>/<case>/`. [`Case`] reads it, [`run`] runs it with the engine alone,
//! [`normalise`] makes logs from different sources comparable.

mod case;
mod case_run;
mod event_line;
mod input_schedule;
mod normalise;
mod script;

pub use case::{Case, CaseError, case_folders, case_name};
pub use case_run::{CaseResult, run_case};
pub use input_schedule::{ExternalInput, InputSchedule, RerunInput, ScheduledInput, Trigger};
pub use normalise::{CaseLog, normalise};
pub use script::{Script, ScriptedAnswer};
