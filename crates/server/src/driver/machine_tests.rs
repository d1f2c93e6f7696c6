//! Tests of the driver's state machine: each passes inputs and reads effects; nothing is stored, sent or awaited.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use engine::{ExecutionLimits, ExecutionRequest, Input, PlaybookNet};
use model::id::{EventId, ExecutionId, PlaybookHash, WorkerId};
use model::time::Time;
use store::{CommitStatus, OwnerId};
use tokio::sync::oneshot;
use wire::ClaimedCommand;
use wire::api::ClaimRequest;

use crate::driver::effect::{DriverInput, DriverTimer, Effect, Reply, StampSource, Ticket};
use crate::driver::handle::{DriverRequest, InputAttachments, InputError, InputReply, PendingClaim};
use crate::driver::hooks::Hooks;
use crate::driver::machine::{DriverMachine, DriverSettings};
use crate::driver::write_batch::{BatchEntry, FinishedCommit};
use crate::error::Error;
use crate::loading::LoadResult;

const PLAYBOOK: &str = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: p}\n\
                        workflow: [{step: start, tool: {kind: noop}}]\n";
const EXECUTION: ExecutionId = ExecutionId(1);

struct TestStamps {
    last_id: Cell<i64>,
}

impl StampSource for TestStamps {
    fn now(&self) -> Time {
        Time(1_000)
    }
    fn ids(&self, count: u32) -> EventId {
        let first = self.last_id.get() + 1;
        self.last_id.set(first + i64::from(count));
        EventId(first)
    }
    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}

type InputReceiver = oneshot::Receiver<Result<InputReply, InputError>>;
type ClaimReceiver = oneshot::Receiver<Result<Vec<ClaimedCommand>, Error>>;

/// A machine whose replies are sent and whose other effects the test reads.
struct TestDriver {
    machine: DriverMachine,
    net: Arc<PlaybookNet>,
}

impl TestDriver {
    fn new() -> Self {
        let settings = DriverSettings {
            owner: OwnerId("server".into()),
            has_peers: false,
            has_bus: false,
            hooks: Hooks::default(),
        };
        let stamps = TestStamps { last_id: Cell::new(0) };
        let playbook = language::playbook::parse("p", PLAYBOOK.as_bytes()).playbook;
        let playbook = Arc::new(playbook.expect("the playbook is valid"));
        Self {
            machine: DriverMachine::new(settings, Box::new(stamps)),
            net: Arc::new(PlaybookNet::new(playbook, ExecutionLimits::default())),
        }
    }

    /// Passes an input, sends the replies, and returns the other effects.
    fn step(&mut self, input: DriverInput) -> Vec<Effect> {
        self.machine.handle(input);
        let mut other_messages = Vec::new();
        for effect in self.machine.finish_step() {
            match effect {
                Effect::Reply(Reply::Input(sender, result)) => {
                    sender.send(result).expect("the test waits for the reply");
                }
                Effect::Reply(Reply::Claim(sender, result)) => {
                    sender.send(result).expect("the test waits for the reply");
                }
                effect => other_messages.push(effect),
            }
        }
        other_messages
    }

    fn submit(&mut self) -> (Vec<Effect>, InputReceiver) {
        let (reply, receiver) = oneshot::channel();
        let submit = Box::new(ExecutionRequest {
            execution: EXECUTION,
            path: "p".into(),
            version: 1,
            hash: PlaybookHash::from_text(PLAYBOOK),
            payload: None,
            parent: None,
            depth: 0,
            trace_id: None,
            labels: model::labels::Labels::default(),
            reuse: None,
            env: None,
        });
        let request = DriverRequest::Submit {
            submit,
            net: self.net.clone(),
            consumed_message: None,
            reply,
        };
        (self.step(DriverInput::Request(request)), receiver)
    }

    fn apply(&mut self, input: Input) -> (Vec<Effect>, InputReceiver) {
        let (reply, receiver) = oneshot::channel();
        let request = DriverRequest::Apply {
            execution: EXECUTION,
            input,
            attachments: InputAttachments::default(),
            reply,
        };
        (self.step(DriverInput::Request(request)), receiver)
    }

    fn claim(&mut self) -> (Vec<Effect>, ClaimReceiver) {
        let (reply, receiver) = oneshot::channel();
        let request = ClaimRequest {
            worker: WorkerId("worker".into()),
            pool: "default".into(),
            kinds: None,
            max: 1,
            wait_ms: 1_000,
        };
        let claim = DriverRequest::Claim(PendingClaim { request, reply });
        (self.step(DriverInput::Request(claim)), receiver)
    }

    /// The store has answered the commits of a batch.
    fn finish_batch(
        &mut self,
        batch: Vec<BatchEntry>,
        result: impl Fn() -> Result<CommitStatus, Error>,
    ) -> Vec<Effect> {
        let finished = batch.into_iter().map(|(commit, _, post_commit)| {
            let result = result();
            let finished = FinishedCommit { result, post_commit };
            (commit.execution, finished)
        });
        self.step(DriverInput::BatchWritten(finished.collect()))
    }
}

/// The timer among the effects.
fn armed_timer(effects: &[Effect]) -> DriverTimer {
    let mut timers = effects.iter().filter_map(|effect| match effect {
        Effect::ArmTimer(_, timer) => Some(*timer),
        _ => None,
    });
    timers.next().expect("a timer is armed")
}

/// Removes the only batch from the effects.
fn take_batch(effects: Vec<Effect>) -> Vec<BatchEntry> {
    let mut batches = effects.into_iter().filter_map(|effect| match effect {
        Effect::WriteBatch(batch) => Some(batch),
        _ => None,
    });
    let batch = batches.next().expect("a batch is written");
    assert!(batches.next().is_none(), "only one batch is written");
    batch
}

/// The ticket of the only load among the effects.
fn load_ticket(effects: &[Effect]) -> Ticket {
    let tickets = effects.iter().filter_map(|effect| match effect {
        Effect::LoadExecution(ticket, _) => Some(*ticket),
        _ => None,
    });
    let tickets: Vec<Ticket> = tickets.collect();
    assert_eq!(tickets.len(), 1, "one load begins");
    tickets[0]
}

fn connection_error() -> Error {
    Error::Store(store::Error::Unavailable("the connection broke".into()))
}

#[test]
fn a_submission_is_accepted_only_when_it_is_durable() {
    let mut driver = TestDriver::new();
    let (effects, mut reply) = driver.submit();
    assert!(reply.try_recv().is_err(), "nothing is durable yet");
    driver.finish_batch(take_batch(effects), || Ok(CommitStatus::Committed));
    reply.try_recv().expect("a reply").expect("it is accepted");
}

#[test]
fn a_second_submission_waits_for_the_first_and_changes_nothing() {
    let mut driver = TestDriver::new();
    let (effects, mut first) = driver.submit();
    let (second_effects, mut second) = driver.submit();
    assert!(second_effects.is_empty(), "the second writes nothing");
    assert!(second.try_recv().is_err(), "the first is not durable yet");
    let after = driver.finish_batch(take_batch(effects), || Ok(CommitStatus::Committed));
    assert!(
        !after.iter().any(|effect| matches!(effect, Effect::WriteBatch(_))),
        "the second writes nothing"
    );
    for reply in [&mut first, &mut second] {
        reply.try_recv().expect("a reply").expect("it is accepted");
    }
}

#[test]
fn a_commit_with_unknown_outcome_is_read_back_and_decided_again() {
    let mut driver = TestDriver::new();
    let (effects, mut reply) = driver.submit();
    let effects = driver.finish_batch(take_batch(effects), || Err(connection_error()));
    assert!(reply.try_recv().is_err(), "the outcome is unknown");
    let effects = driver.step(DriverInput::TimerDue(armed_timer(&effects)));
    let ticket = load_ticket(&effects);
    let loaded = DriverInput::ExecutionLoaded(ticket, Ok(LoadResult::NotFound));
    let effects = driver.step(loaded);
    driver.finish_batch(take_batch(effects), || Ok(CommitStatus::Committed));
    reply.try_recv().expect("a reply").expect("it is accepted");
}

#[test]
fn a_refused_commit_of_an_execution_of_another_server_is_not_written_again() {
    let mut driver = TestDriver::new();
    let (effects, mut submitted) = driver.submit();
    driver.finish_batch(take_batch(effects), || Ok(CommitStatus::Committed));
    submitted.try_recv().expect("a reply").expect("it is accepted");
    let (effects, mut paused) = driver.apply(Input::Pause { reason: None });
    let conflict = || {
        Ok(CommitStatus::VersionConflict {
            version: model::id::Seq(99),
        })
    };
    let effects = driver.finish_batch(take_batch(effects), conflict);
    let effects = driver.step(DriverInput::TimerDue(armed_timer(&effects)));
    let ticket = load_ticket(&effects);
    let other = OwnerId("other".into());
    let effects = driver.step(DriverInput::ExecutionLoaded(ticket, Ok(LoadResult::OwnedBy(other))));
    assert!(effects.is_empty(), "the other server continues");
    let refused = paused.try_recv().expect("a reply");
    assert!(matches!(refused, Err(InputError::Failed(Error::OwnedBy(_)))));
    assert_eq!(driver.machine.execution_count(), 0);
}

#[test]
fn a_result_with_an_old_ticket_is_ignored() {
    let mut driver = TestDriver::new();
    let (effects, mut reply) = driver.apply(Input::Continue);
    let ticket = load_ticket(&effects);
    let old = Ticket {
        number: ticket.number + 7,
        ..ticket
    };
    let effects = driver.step(DriverInput::ExecutionLoaded(old, Ok(LoadResult::NotFound)));
    assert!(effects.is_empty(), "no submission waits for this load");
    let timer = DriverInput::TimerDue(DriverTimer::Reload(old));
    assert!(driver.step(timer).is_empty(), "no submission waits for this timer");
    assert!(reply.try_recv().is_err(), "the true load has not ended");
    driver.step(DriverInput::ExecutionLoaded(ticket, Ok(LoadResult::NotFound)));
    let missing = reply.try_recv().expect("a reply");
    assert!(matches!(missing, Err(InputError::Failed(Error::NotFound(_)))));
}

#[test]
fn a_waiting_worker_gets_a_command_when_its_claim_is_durable() {
    let mut driver = TestDriver::new();
    let (mut effects, mut claimed) = driver.claim();
    let Some(Effect::ClaimCommands(claim)) = effects.pop() else {
        panic!("the store is searched for a pool that is new to the driver");
    };
    let effects = driver.step(DriverInput::CommandsClaimed(claim, Ok(Vec::new())));
    assert!(effects.is_empty(), "the worker waits");
    let (effects, _submitted) = driver.submit();
    let batch = take_batch(effects);
    assert_eq!(batch[0].2.assigned.len(), 1, "the claim is in the commit");
    assert!(claimed.try_recv().is_err(), "the claim is not durable yet");
    driver.finish_batch(batch, || Ok(CommitStatus::Committed));
    let commands = claimed.try_recv().expect("a reply").expect("a command");
    assert_eq!(commands.len(), 1);
}

#[test]
fn a_claim_of_a_failed_commit_is_undone() {
    let mut driver = TestDriver::new();
    let (mut effects, mut claimed) = driver.claim();
    let Some(Effect::ClaimCommands(claim)) = effects.pop() else {
        panic!("the store is searched for a pool that is new to the driver");
    };
    driver.step(DriverInput::CommandsClaimed(claim, Ok(Vec::new())));
    let (effects, _submitted) = driver.submit();
    driver.finish_batch(take_batch(effects), || Err(connection_error()));
    assert!(claimed.try_recv().is_err(), "the worker waits again");
    let assignments = driver.machine.claim_table.assignments();
    assert!(assignments.pending.is_empty() && assignments.claimed.is_empty());
}
