//! Conformance cases as data: a playbook, the outcomes of its tasks, and the expected log.
//!
//! A case is a directory `tests/conformance/<area>/<case>/`. [`Case`] reads it, [`run_case`] runs it on a server and a
//! worker whose tools are scripted, [`normalise`] makes logs from different runs comparable, and [`compare_log`]
//! compares them with the expectation.

mod case;
mod case_run;
mod comparison;
mod deployment;
mod event_line;
mod input_schedule;
mod normalise;
mod outcome_source;
mod script;
mod scripted_tool;

pub use case::{Case, CaseError, case_folders, case_name};
pub use case_run::{CaseResult, run_case, run_case_in_virtual_time};
pub use comparison::{compare_log, compare_raced_log};
pub use deployment::CaseDeployment;
pub use input_schedule::{ExternalInput, InputSchedule, RerunInput, ScheduledInput, Trigger};
pub use normalise::{CaseLog, normalise};
pub use outcome_source::{AttemptQuery, OutcomeSource, TimedOutcome};
pub use script::{Script, ScriptedOutcome};
