//! A command in hand: everything its pipelines share.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use model::command::Command;
use model::event::{At, Body, Event, Source};
use model::id::{EventId, ExecutionId, Name, Seq};
use model::outcome::TaskError;
use model::playbook::{LoopMode, Step};
use model::raw::Raw;
use model::template::{Data, Iter, Loaded, Scope};
use model::time::Time;
use tempfile::TempDir;

use crate::held::Held;
use crate::lease::{Gone, Lease};
use crate::playbooks::{Prepared, StepPlan};
use crate::scratch;
use crate::secrets::RunSecrets;
use crate::worker::Shared;

/// A command in hand.
pub(crate) struct Hand {
    pub(crate) shared: Arc<Shared>,
    pub(crate) lease: Arc<Lease>,
    pub(crate) command: Command,
    pub(crate) context: Arc<wire::Context>,
    pub(crate) prepared: Arc<Prepared>,
    /// What was loaded for any pipeline of the command.
    loaded: Mutex<Held>,
    /// Files that its tasks read; made when one is asked for.
    scratch: Mutex<Scratch>,
    /// The tasks whose `select` was warned about.
    warned: Mutex<BTreeSet<Name>>,
    /// The secrets of the execution, once there are any: they stay as long as the command runs.
    pub(crate) secrets: OnceLock<Arc<RunSecrets>>,
}

/// A folder of files, numbered.
#[derive(Default)]
struct Scratch {
    folder: Option<TempDir>,
    files: u32,
}

/// Why something could not be done.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// It cannot be done: the task or step fails with this.
    Failed(Box<TaskError>),
    /// The worker was told to stop before it was done.
    Interrupted,
}

impl From<TaskError> for Trouble {
    fn from(error: TaskError) -> Self {
        Self::Failed(Box::new(error))
    }
}

impl From<Box<TaskError>> for Trouble {
    fn from(error: Box<TaskError>) -> Self {
        Self::Failed(error)
    }
}

impl From<Gone> for Trouble {
    fn from(Gone: Gone) -> Self {
        Self::Interrupted
    }
}

impl Hand {
    pub(crate) fn new(
        shared: Arc<Shared>,
        lease: Arc<Lease>,
        prepared: Arc<Prepared>,
        command: Command,
        context: Arc<wire::Context>,
    ) -> Self {
        Self {
            shared,
            lease,
            command,
            context,
            prepared,
            loaded: Mutex::default(),
            scratch: Mutex::default(),
            warned: Mutex::default(),
            secrets: OnceLock::new(),
        }
    }

    pub(crate) fn execution(&self) -> ExecutionId {
        self.command.id.execution
    }

    /// The step the command runs, and what is known of it.
    pub(crate) fn step(&self) -> Option<(&Step, &StepPlan)> {
        self.prepared.step(&self.command.run.step)
    }

    /// The step run, as events name it.
    pub(crate) fn at(&self) -> At {
        At::step_run(&self.command.run)
    }

    pub(crate) fn now(&self) -> Time {
        self.shared.config.clock.now()
    }

    /// What every pipeline of the command sees before it begins.
    pub(crate) fn scope(&self) -> Scope {
        let mut scope = self.context.scope();
        if let Some(args) = &self.command.args {
            scope.args = Data::lazy(args.clone());
        }
        scope.env.clone_from(&self.shared.env);
        // Steps without a loop of their own see the iteration that their playbook was started in.
        scope.iter = self.parent_iter().map(|parent| Iter {
            parent: Some(parent),
            ..Iter::default()
        });
        scope.loaded = self.loaded();
        scope
    }

    /// What was loaded so far.
    pub(crate) fn loaded(&self) -> Arc<Loaded> {
        self.loaded
            .lock()
            .expect("no holder of what was loaded panics")
            .loaded()
    }

    /// Adds to what was loaded, for every pipeline of the command.
    pub(crate) fn remember(&self, more: Loaded, sizes: Vec<(String, u64)>) -> Arc<Loaded> {
        let mut held = self
            .loaded
            .lock()
            .expect("no holder of what was loaded panics");
        held.add(more, sizes);
        held.loaded()
    }

    /// Whether nothing was said about this task's `select` yet.
    pub(crate) fn is_first_warning(&self, task: &Name) -> bool {
        let mut warned = self.warned.lock().expect("no holder of the names panics");
        warned.insert(task.clone())
    }

    /// A path for one more file of this command.
    pub(crate) fn scratch_file(&self) -> Result<PathBuf, Box<TaskError>> {
        let mut scratch = self.scratch.lock().expect("no holder of the files panics");
        let folder = match scratch.folder.take() {
            Some(folder) => folder,
            None => scratch::folder(&self.shared.config.scratch_dir)?,
        };
        scratch.files += 1;
        let path = folder.path().join(format!("{}.json", scratch.files));
        scratch.folder = Some(folder);
        Ok(path)
    }

    /// An event that happened now.
    pub(crate) fn event(&self, at: At, body: Body) -> Event {
        stamped(&self.shared, self.execution(), at, body)
    }

    /// An event that ends what began then.
    pub(crate) fn ending(&self, at: At, body: Body, begun: Time) -> Event {
        let mut event = self.event(at, body);
        event.duration_ms = Some(millis(event.timestamp, begun));
        event
    }

    /// The parent's iteration, for `iter.parent`.
    pub(crate) fn parent_iter(&self) -> Option<Data> {
        self.context
            .parent_iter
            .as_ref()
            .map(|raw: &Raw| Data::lazy(raw.clone()))
    }
}

/// Whether writes to `ctx` wait for the end of the loop.
pub(crate) fn is_parallel(step: &Step) -> bool {
    step.loop_
        .as_ref()
        .is_some_and(|loop_| loop_.mode == LoopMode::Parallel)
}

/// An event of this worker. Id and seq are the server's to give.
pub(crate) fn stamped(shared: &Shared, execution: ExecutionId, at: At, body: Body) -> Event {
    let now = shared.config.clock.now();
    Event {
        event_id: EventId(0),
        execution_id: execution,
        seq: Seq(0),
        cause_seq: None,
        timestamp: now,
        recorded_at: now,
        source: Source::Worker,
        at,
        duration_ms: None,
        worker_id: Some(shared.config.worker.clone()),
        trace_id: None,
        meta: None,
        body,
    }
}

/// Whole milliseconds from one time to another.
pub(crate) fn millis(now: Time, begun: Time) -> u64 {
    u64::try_from(now.since(begun).as_millis()).unwrap_or(u64::MAX)
}
