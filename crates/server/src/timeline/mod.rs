//! When the steps, tasks and attempts of a run ran, and which step runs its end waited for.
//!
//! Input: the outline of the run, and measured iterations of its loops. Output: an `ExecutionTimeline`. The cost does not
//! depend on the number of iterations.

mod critical_path;
mod loop_band;
mod read;
mod rows;
