//! Cache of parsed playbooks with the plans of their steps.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use language::playbook::credentials::CredentialUses;
use language::playbook::{Playbook, SharedPlaybooks, Step, Task};
use language::template::Tree;
use model::id::{Name, PlaybookHash};
use model::outcome::{ErrorKind, TaskError};
use model::source::SourceText;
use serde_json::Value;
use tools::{Registry, Tool};

/// Maximum number of cached playbooks.
const CACHED_PLAYBOOKS_MAX: usize = 64;

/// A parsed playbook with the plans of its steps.
pub(crate) struct PreparedPlaybook {
    /// The playbook.
    pub(crate) playbook: Arc<Playbook>,
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
    pub(crate) cursor_claim_plan: Option<Box<StepPlan>>,
}

/// Facts about a task that are computed before it runs.
pub(crate) struct TaskPlan {
    /// What executes the task.
    pub(crate) binding: ToolBinding,
    /// Whether the task has no side effects and may run again.
    pub(crate) is_pure: bool,
    /// Credentials that the text of the task refers to.
    pub(crate) credential_uses: CredentialUses,
}

/// What executes a task.
pub(crate) enum ToolBinding {
    /// A tool of this worker.
    Tool(Arc<dyn Tool>),
    /// A child execution.
    Child,
    /// A timer or a signal.
    Wait,
    /// Nothing: this worker does not have the tool.
    Unknown,
}

impl PreparedPlaybook {
    /// Parses a playbook. An error in it fails every step that runs from it.
    pub(crate) fn parse(
        text: &SourceText,
        playbooks: &SharedPlaybooks,
        tools: &Registry,
        base_dir: &Path,
    ) -> Result<Self, Box<TaskError>> {
        let playbook = playbooks.parse(&text.name, &text.text).map_err(|diagnostics| {
            let first = diagnostics.iter().find(|diagnostic| diagnostic.is_error());
            let reason = first.map_or_else(String::new, |diagnostic| format!(": {}", diagnostic.message));
            let message = format!("cannot parse playbook `{}`{reason}", text.name);
            TaskError::new(ErrorKind::Parse, "PLAYBOOK_INVALID", message)
        })?;
        let steps = (0..).zip(&playbook.steps);
        let steps = steps.map(|(index, step)| (step.name.clone(), index));
        let file = base_dir.join(&*text.name);
        let base_dir = match file.parent() {
            Some(folder) if file.is_file() => folder.to_owned(),
            _ => base_dir.to_owned(),
        };
        Ok(Self {
            steps: steps.collect(),
            plans: playbook.steps.iter().map(|step| plan_step(step, tools)).collect(),
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

fn plan_step(step: &Step, tools: &Registry) -> StepPlan {
    let tasks: Vec<_> = step.tasks.iter().map(|task| plan_task(step, task, tools)).collect();
    let only_computes = |task: &TaskPlan| match &task.binding {
        ToolBinding::Tool(tool) => tool.is_pure(),
        ToolBinding::Child | ToolBinding::Wait | ToolBinding::Unknown => task.is_pure,
    };
    StepPlan {
        is_pure: tasks.iter().all(only_computes),
        cursor_claim_plan: step.cursor_claim().map(|claim| Box::new(plan_step(&claim.step, tools))),
        tasks,
    }
}

fn plan_task(step: &Step, task: &Task, tools: &Registry) -> TaskPlan {
    let role = match (task.kind.as_str(), tools.get(task.kind.as_str())) {
        (_, Some(tool)) => ToolBinding::Tool(tool),
        ("playbook", None) => ToolBinding::Child,
        ("wait", None) => ToolBinding::Wait,
        (_, None) => ToolBinding::Unknown,
    };
    let is_pure = match &role {
        ToolBinding::Tool(tool) => tool.is_pure() || is_read_only(task),
        ToolBinding::Unknown => true,
        ToolBinding::Child | ToolBinding::Wait => false,
    };
    TaskPlan {
        binding: role,
        is_pure,
        credential_uses: CredentialUses::from_task(step, task),
    }
}

/// Whether the action of a task has no side effects, so that it may run again.
fn is_read_only(task: &Task) -> bool {
    let read_actions = task.kind_spec().read_actions;
    match task.fields.get("action") {
        None => !read_actions.is_empty(),
        Some(Tree::Literal(Value::String(action))) => read_actions.contains(&action.as_str()),
        Some(_) => false,
    }
}

/// Cache of playbooks by hash.
#[derive(Default)]
pub(crate) struct PlaybookCache {
    entries: Mutex<VecDeque<(PlaybookHash, Arc<PreparedPlaybook>)>>,
}

impl PlaybookCache {
    /// Returns a playbook from the cache.
    pub(crate) fn find(&self, hash: &PlaybookHash) -> Option<Arc<PreparedPlaybook>> {
        let entries = self.entries.lock().expect("the lock is not poisoned");
        let entry = entries.iter().find(|(entry_hash, _)| entry_hash == hash);
        entry.map(|(_, prepared)| prepared.clone())
    }

    /// Adds a playbook; evicts the oldest entry if the cache is full.
    pub(crate) fn insert(&self, hash: &PlaybookHash, prepared: Arc<PreparedPlaybook>) {
        let mut entries = self.entries.lock().expect("the lock is not poisoned");
        if entries.len() >= CACHED_PLAYBOOKS_MAX {
            entries.pop_front();
        }
        entries.push_back((hash.clone(), prepared));
    }
}
