//! Commits for tests.

use model::command::{Command, CommandWork};
use model::event::{
    CommandIssued, EmptyPayload, EndStatus, Event, EventBody, EventLocation, ExecutionFinished, ExecutionRequested,
    ResultStored, StepDone, StepScheduled, TaskEnded,
};
use model::id::{CommandId, ExecutionId, Name, PlaybookHash, Seq, StepRunId, TokenId};
use model::labels::Labels;
use model::manifest::{CombineStrategy, ManifestRule};
use model::outcome::{ErrorKind, TaskError};
use model::playbook::Directive;
use model::raw::RawJson;
use model::result_ref::{BodyMeta, BodyScope, RefKind, ResultRef};
use serde_json::{Map, json};

use super::expect_ok;
use crate::{CommandChange, Commit, IssuedCommand, OwnerId, Store};

/// The commit that creates an execution.
pub fn creation_commit(store: &dyn Store) -> Commit {
    let execution = ExecutionId(store.ids(1).0);
    let requested = ExecutionRequested {
        path: "examples/hello".into(),
        version: 1,
        hash: PlaybookHash::from_text("text"),
        workload: RawJson::from_serializable(&json!({"greeting": "hello"})),
        parent: None,
        depth: 0,
        trace_id: None,
        rerun: None,
        labels: Labels::default(),
    };
    let mut events = commit_after(
        store,
        execution,
        Seq(0),
        vec![
            (
                EventLocation::default(),
                EventBody::ExecutionRequested(Box::new(requested)),
            ),
            (EventLocation::default(), EventBody::PlaybookStarted(EmptyPayload {})),
        ],
    );
    events[0].cause_seq = None;
    Commit::new(execution, Seq(0), events)
}

/// A commit of the given bodies.
pub(super) fn next_commit(
    store: &dyn Store,
    execution: ExecutionId,
    expected: Seq,
    bodies: Vec<(EventLocation, EventBody)>,
) -> Commit {
    let events = commit_after(store, execution, expected, bodies);
    Commit::new(execution, expected, events)
}

fn commit_after(
    store: &dyn Store,
    execution: ExecutionId,
    expected: Seq,
    bodies: Vec<(EventLocation, EventBody)>,
) -> Vec<Event> {
    let count = u32::try_from(bodies.len()).expect("a test has few events");
    let mut ids = model::id::IdBlock::starting_at(store.ids(count));
    let now = store.now();
    let seqs = expected.0 + 1..;
    seqs.zip(bodies)
        .map(|(seq, (location, body))| Event {
            seq: Seq(seq),
            cause_seq: Some(Seq(seq - 1)),
            ..Event::new(ids.next_event_id(), execution, now, location, body)
        })
        .collect()
}

/// The end of an execution.
pub(super) fn execution_finished(generation: u32, ended: EndStatus) -> (EventLocation, EventBody) {
    let finished = ExecutionFinished {
        generation,
        result: None,
        error: None,
        ended,
    };
    (
        EventLocation::default(),
        EventBody::PlaybookFinished(Box::new(finished)),
    )
}

/// The end of a failed execution.
pub(super) fn execution_failed(code: &str, message: &str) -> (EventLocation, EventBody) {
    let finished = ExecutionFinished {
        generation: 1,
        result: None,
        error: Some(TaskError::new(ErrorKind::ServerError, code, message)),
        ended: EndStatus::Error,
    };
    (
        EventLocation::default(),
        EventBody::PlaybookFinished(Box::new(finished)),
    )
}

/// Creates an execution; its log is at 2.
pub(super) async fn start_execution(store: &dyn Store, owner: Option<OwnerId>) -> ExecutionId {
    let mut first = creation_commit(store);
    first.creation.owner = owner;
    let id = first.execution;
    expect_ok(store.commit(first).await);
    id
}

/// Creates an execution whose first step is offered to workers that serve these kinds: the log is at 4, and the command
/// is event 4.
pub(super) async fn create_offered_command(store: &dyn Store, kinds: &[&str]) -> ExecutionId {
    let id = start_execution(store, None).await;
    let mut commit = PlainStep::new("a", 1).schedule(store, id, Seq(2));
    if let CommandChange::Issue(issue) = &mut commit.commands[0] {
        issue.kinds = kinds.iter().copied().map(Into::into).collect();
    }
    expect_ok(store.commit(commit).await);
    id
}

/// One run of a plain step.
pub struct PlainStep {
    run: StepRunId,
}

impl PlainStep {
    /// The n-th run of a step.
    pub fn new(step: &str, run: u32) -> Self {
        Self {
            run: StepRunId { step: step.into(), run },
        }
    }

    /// Schedules the run and offers its command.
    pub fn schedule(&self, store: &dyn Store, execution: ExecutionId, expected: Seq) -> Commit {
        let scheduled = StepScheduled {
            tokens: vec![TokenId { seq: expected, arc: 0 }],
            args: None,
            args_from: None,
            is_final: false,
        };
        let issued = CommandIssued {
            work: CommandWork::Pipeline,
            dispatch: 1,
            pool: "default".into(),
        };
        let location = EventLocation::of_step_run(&self.run);
        let bodies = vec![
            (location.clone(), EventBody::StepScheduled(Box::new(scheduled))),
            (location, EventBody::CommandIssued(issued)),
        ];
        let mut commit = next_commit(store, execution, expected, bodies);
        commit.commands.push(CommandChange::Issue(Box::new(IssuedCommand {
            command: Command {
                id: CommandId {
                    execution,
                    seq: Seq(expected.0 + 2),
                },
                playbook: PlaybookHash::from_text("text"),
                run: self.run.clone(),
                work: CommandWork::Pipeline,
                dispatch: 1,
                pool: "default".into(),
                args: None,
                loop_started: None,
            },
            claimed: None,
            start_by: None,
            kinds: Vec::new(),
        })));
        commit
    }

    /// Ends its task with a body outside the log, and ends the step.
    pub fn finish(&self, store: &dyn Store, execution: ExecutionId, expected: Seq) -> Commit {
        let ended = TaskEnded {
            result_ref: Some(Box::new(body_reference(execution))),
            ..TaskEnded::new(
                RawJson::from_serializable(&json!({"status": "ok", "result": null})),
                Directive::Continue,
            )
        };
        let location = EventLocation::of_step_run(&self.run);
        let task = EventLocation {
            task: Some(Name::from("fetch")),
            visit: 1,
            attempt: 1,
            ..location.clone()
        };
        let bodies = vec![
            (task, EventBody::TaskDone(Box::new(ended))),
            (location, EventBody::StepDone(StepDone::default())),
        ];
        next_commit(store, execution, expected, bodies)
    }

    /// Ends one page of its task with a body outside the log, and records the manifest.
    pub fn collect(&self, store: &dyn Store, execution: ExecutionId, expected: Seq) -> Commit {
        let mut commit = self.finish(store, execution, expected);
        let task = EventLocation {
            page: Some(3),
            ..commit.events[0].location.clone()
        };
        let rule = ManifestRule {
            strategy: CombineStrategy::Append,
            merge_path: None,
            first: expected,
            seq: Seq(expected.0 + 2),
            parts: 1,
            is_loop: false,
            pages: Vec::new(),
            is_result: true,
            ends_pipeline: true,
        };
        let result_ref = Box::new(rule.to_reference(execution, &task, 100_000, None));
        commit.events[0].location = task;
        commit.events[1].location = EventLocation {
            page: None,
            ..commit.events[0].location.clone()
        };
        commit.events[1].body = EventBody::ManifestUpdated(ResultStored { result_ref });
        commit
    }
}

fn body_reference(execution: ExecutionId) -> ResultRef {
    ResultRef {
        kind: RefKind::Result,
        uri: format!("noetl://execution/{execution}/step/a/task/fetch/run/1/attempt/1"),
        store: "file".to_owned(),
        scope: BodyScope::Execution,
        expires_at: None,
        meta: BodyMeta {
            content_type: "application/json".to_owned(),
            bytes: 100_000,
            sha256: "00".to_owned(),
            compression: None,
            location: Map::new(),
        },
        extracted: Map::new(),
        keys: Vec::new(),
        preview: None,
    }
}
