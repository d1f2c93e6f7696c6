//! Cache of parsed playbooks with the plans of their steps.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use model::id::{Name, PlaybookHash};
use model::outcome::{ErrorKind, TaskError};
use model::playbook::credentials::Opens;
use model::playbook::{Playbook, Step, Task, parse};
use model::template::Tree;
use serde_json::Value;
use tools::{Registry, Tool};
use wire::PlaybookText;

/// Maximum number of cached playbooks.
const KEPT_MAX: usize = 64;

/// A parsed playbook with the plans of its steps.
pub(crate) struct Prepared {
    /// The playbook.
    pub(crate) playbook: Playbook,
    /// Name of the playbook in errors.
    pub(crate) file: Arc<str>,
    /// Base of its relative paths.
    pub(crate) base_dir: PathBuf,
    steps: HashMap<Name, usize>,
    plans: Vec<StepPlan>,
}

/// Facts about a step that are computed before it runs.
pub(crate) struct StepPlan {
    /// Plan of each task.
    pub(crate) tasks: Vec<TaskPlan>,
    /// Whether its tasks only compute, so that concurrent iterations are not faster.
    pub(crate) is_pure: bool,
    /// Plan of the step that claims rows, for a cursor loop.
    pub(crate) claim: Option<Box<StepPlan>>,
}

/// Facts about a task that are computed before it runs.
pub(crate) struct TaskPlan {
    /// What executes the task.
    pub(crate) role: Role,
    /// Whether the task has no side effects and may run again.
    pub(crate) is_pure: bool,
    /// Credentials that the text of the task refers to.
    pub(crate) opens: Opens,
}

/// What executes a task.
pub(crate) enum Role {
    /// A tool of this worker.
    Tool(Arc<dyn Tool>),
    /// A child execution.
    Child,
    /// A timer or a signal.
    Wait,
    /// Nothing: this worker does not have the tool.
    Unknown,
}

impl Prepared {
    /// Parses a playbook. An error in it fails every step that runs from it.
    pub(crate) fn read(
        text: &PlaybookText,
        tools: &Registry,
        base_dir: &Path,
    ) -> Result<Self, Box<TaskError>> {
        let parsed = parse(&text.name, text.text.as_bytes());
        let Some(playbook) = parsed.playbook else {
            let first = parsed.diagnostics.iter().find(|found| found.is_error());
            let why = first.map_or_else(String::new, |found| format!(": {}", found.message));
            let message = format!("cannot parse playbook `{}`{why}", text.name);
            let error = TaskError::new(ErrorKind::Parse, "PLAYBOOK_INVALID", message);
            return Err(Box::new(error));
        };
        let steps = (0..).zip(&playbook.steps);
        let steps = steps.map(|(index, step)| (step.name.clone(), index));
        let file = base_dir.join(&*text.name);
        let base_dir = match file.parent() {
            Some(folder) if file.is_file() => folder.to_owned(),
            _ => base_dir.to_owned(),
        };
        Ok(Self {
            steps: steps.collect(),
            plans: playbook
                .steps
                .iter()
                .map(|step| plan(step, tools))
                .collect(),
            file: text.name.clone(),
            base_dir,
            playbook,
        })
    }

    /// Returns a step and its plan.
    pub(crate) fn step(&self, name: &Name) -> Option<(&Step, &StepPlan)> {
        let index = *self.steps.get(name)?;
        Some((&self.playbook.steps[index], &self.plans[index]))
    }
}

fn plan(step: &Step, tools: &Registry) -> StepPlan {
    let tasks: Vec<_> = step
        .tasks
        .iter()
        .map(|task| task_plan(step, task, tools))
        .collect();
    let only_computes = |task: &TaskPlan| match &task.role {
        Role::Tool(tool) => tool.is_pure(),
        Role::Child | Role::Wait | Role::Unknown => task.is_pure,
    };
    StepPlan {
        is_pure: tasks.iter().all(only_computes),
        claim: step.claim().map(|claim| Box::new(plan(&claim.step, tools))),
        tasks,
    }
}

fn task_plan(step: &Step, task: &Task, tools: &Registry) -> TaskPlan {
    let role = match (task.kind.as_str(), tools.get(task.kind.as_str())) {
        (_, Some(tool)) => Role::Tool(tool),
        ("playbook", None) => Role::Child,
        ("wait", None) => Role::Wait,
        (_, None) => Role::Unknown,
    };
    let is_pure = match &role {
        Role::Tool(tool) => tool.is_pure() || only_reads(task),
        Role::Unknown => true,
        Role::Child | Role::Wait => false,
    };
    TaskPlan {
        role,
        is_pure,
        opens: Opens::of_task(step, task),
    }
}

/// Whether a task only reads results and may run again.
fn only_reads(task: &Task) -> bool {
    let action = task.fields.get("action");
    let reads = |action: &Tree| matches!(action, Tree::Literal(Value::String(word)) if word == "get" || word == "list");
    task.kind == "artifact" && action.is_none_or(reads)
}

/// Cache of playbooks by hash.
#[derive(Default)]
pub(crate) struct Playbooks {
    kept: Mutex<VecDeque<(PlaybookHash, Arc<Prepared>)>>,
}

impl Playbooks {
    /// Returns a playbook from the cache.
    pub(crate) fn find(&self, hash: &PlaybookHash) -> Option<Arc<Prepared>> {
        let kept = self.kept.lock().expect("the lock is not poisoned");
        let found = kept.iter().find(|(known, _)| known == hash);
        found.map(|(_, prepared)| prepared.clone())
    }

    /// Adds a playbook; evicts the oldest entry if the cache is full.
    pub(crate) fn keep(&self, hash: &PlaybookHash, prepared: Arc<Prepared>) {
        let mut kept = self.kept.lock().expect("the lock is not poisoned");
        if kept.len() >= KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back((hash.clone(), prepared));
    }
}
