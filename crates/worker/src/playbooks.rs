//! Playbooks: each text is read once, and what workers ask of it again and again is found once.

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

/// Texts kept at once.
const KEPT_MAX: usize = 64;

/// A playbook, ready to run.
pub(crate) struct Prepared {
    /// The playbook.
    pub(crate) playbook: Playbook,
    /// What errors call it.
    pub(crate) file: Arc<str>,
    /// What its relative paths are relative to.
    pub(crate) base_dir: PathBuf,
    steps: HashMap<Name, usize>,
    plans: Vec<StepPlan>,
}

/// What is known of a step before it runs.
pub(crate) struct StepPlan {
    /// One for each task.
    pub(crate) tasks: Vec<TaskPlan>,
    /// Whether its tasks only compute, so that iterations gain nothing from running side by side.
    pub(crate) is_pure: bool,
    /// What claims the rows of its loop.
    pub(crate) claim: Option<Box<StepPlan>>,
}

/// What is known of a task before it runs.
pub(crate) struct TaskPlan {
    /// Who does it.
    pub(crate) role: Role,
    /// Whether it may run again freely.
    pub(crate) is_pure: bool,
    /// What it opens, as far as its text tells.
    pub(crate) opens: Opens,
}

/// Who does a task.
pub(crate) enum Role {
    /// A tool.
    Tool(Arc<dyn Tool>),
    /// Another execution.
    Child,
    /// Time, or a signal.
    Wait,
    /// Nobody here.
    Unknown,
}

impl Prepared {
    /// Reads a text. What is wrong with it fails every step that runs from it.
    pub(crate) fn read(
        text: &PlaybookText,
        tools: &Registry,
        base_dir: &Path,
    ) -> Result<Self, Box<TaskError>> {
        let parsed = parse(&text.name, text.text.as_bytes());
        let Some(playbook) = parsed.playbook else {
            let first = parsed.diagnostics.iter().find(|found| found.is_error());
            let why = first.map_or_else(String::new, |found| format!(": {}", found.message));
            let message = format!("`{}` cannot be read by this worker{why}", text.name);
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

    /// The step of that name.
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

/// Whether a task only looks at results, which may be done again freely.
fn only_reads(task: &Task) -> bool {
    let action = task.fields.get("action");
    let reads = |action: &Tree| matches!(action, Tree::Literal(Value::String(word)) if word == "get" || word == "list");
    task.kind == "artifact" && action.is_none_or(reads)
}

/// The texts read so far, by hash.
#[derive(Default)]
pub(crate) struct Playbooks {
    kept: Mutex<VecDeque<(PlaybookHash, Arc<Prepared>)>>,
}

impl Playbooks {
    /// The text with that hash, if it is kept.
    pub(crate) fn find(&self, hash: &PlaybookHash) -> Option<Arc<Prepared>> {
        let kept = self.kept.lock().expect("no holder of the texts panics");
        let found = kept.iter().find(|(known, _)| known == hash);
        found.map(|(_, prepared)| prepared.clone())
    }

    /// Keeps a text; the one kept longest makes room.
    pub(crate) fn keep(&self, hash: &PlaybookHash, prepared: Arc<Prepared>) {
        let mut kept = self.kept.lock().expect("no holder of the texts panics");
        if kept.len() >= KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back((hash.clone(), prepared));
    }
}
