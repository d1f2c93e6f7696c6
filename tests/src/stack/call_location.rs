//! Which task a call of a tool belongs to.

use model::id::ExecutionId;

/// The task run of a call, read from its idempotency key.
#[derive(Debug, Clone)]
pub struct CallLocation {
    /// The execution.
    pub execution: ExecutionId,
    /// The step.
    pub step: String,
    /// Label of the task.
    pub task: String,
    /// Index of the iteration.
    pub iteration: Option<u64>,
    /// Number of the entry of the label, from 1.
    pub visit: u32,
}

impl CallLocation {
    /// Reads `execution/step:run/[iteration/]task:visit`.
    pub fn parse(key: &str) -> Option<Self> {
        let parts: Vec<&str> = key.split('/').collect();
        let (execution, run, iteration, task) = match parts[..] {
            [execution, run, task] => (execution, run, None, task),
            [execution, run, iteration, task] => (execution, run, Some(iteration.parse().ok()?), task),
            _ => return None,
        };
        let (task, visit) = task.rsplit_once(':')?;
        Some(Self {
            execution: execution.parse().ok()?,
            step: run.rsplit_once(':')?.0.to_owned(),
            task: task.to_owned(),
            iteration,
            visit: visit.parse().ok()?,
        })
    }
}
