//! One fact for each cause, and the order in which they are reported.

use model::command::{Command, CommandWork};
use model::id::{CommandId, ExecutionId, PlaybookHash, Seq, StepRunId};
use model::time::Time;

use super::*;

fn pending(pool: &str, kinds: &[&str]) -> PendingCommand {
    PendingCommand {
        command: Command {
            id: CommandId {
                execution: ExecutionId(7),
                seq: Seq(4),
            },
            playbook: PlaybookHash::from_text("text"),
            run: StepRunId {
                step: "load".into(),
                run: 1,
            },
            work: CommandWork::Pipeline,
            dispatch: 1,
            pool: pool.into(),
            args: None,
            loop_started: None,
        },
        kinds: kinds.iter().copied().map(Name::from).collect(),
        issued_at: Time(5),
        name: "demo".into(),
        status: RunStatus::Running,
        is_cancelling: false,
        owner: None,
    }
}

fn session(worker: &str, description: &str) -> WorkerSessionRow {
    WorkerSessionRow {
        worker: WorkerId(worker.into()),
        description: (!description.is_empty()).then(|| description.to_owned()),
        expires_at: Time(9),
        is_alive: true,
    }
}

fn lease(worker: &str) -> ClaimedCommandRow {
    ClaimedCommandRow {
        command: pending("default", &[]).command,
        worker: WorkerId(worker.into()),
        claimed_at: None,
        expires_at: None,
        name: "demo".into(),
    }
}

fn cause(fleet: &WorkerFleet, pending: &PendingCommand) -> WaitingCause {
    fleet.waiting_reason(pending).cause
}

const PLAIN: &str = r#"{"pool": "default", "slots": 1, "kinds": ["http", "python"]}"#;

#[test]
fn a_command_of_a_pool_without_workers_waits_for_one() {
    let fleet = WorkerFleet::new(&[session("a", PLAIN), session("old", "")], &[], &[]);
    let reason = fleet.waiting_reason(&pending("gpu", &["python"]));
    assert_eq!(reason.cause, WaitingCause::NoWorkerInPool);
    assert!(
        reason.detail.contains("`gpu`") && reason.detail.contains("1 worker of an older"),
        "{reason:?}"
    );
    assert!(reason.remedy.is_some_and(|remedy| remedy.contains("--pool gpu")));
}

#[test]
fn an_expired_session_is_no_worker() {
    let mut expired = session("a", PLAIN);
    expired.is_alive = false;
    let fleet = WorkerFleet::new(&[expired], &[], &[]);
    assert_eq!(cause(&fleet, &pending("default", &[])), WaitingCause::NoWorkerInPool);
}

#[test]
fn the_kinds_that_no_worker_serves_are_named() {
    let shell = r#"{"pool": "default", "slots": 1, "kinds": ["shell"]}"#;
    let fleet = WorkerFleet::new(&[session("a", PLAIN), session("b", shell)], &[], &[]);
    let missing = fleet.waiting_reason(&pending("default", &["http", "duckdb"]));
    assert_eq!(missing.cause, WaitingCause::NoWorkerForKinds);
    assert!(missing.detail.ends_with("serves `duckdb`"), "{missing:?}");
    let split = fleet.waiting_reason(&pending("default", &["http", "shell"]));
    assert!(split.detail.ends_with("serves all of `http`, `shell`"), "{split:?}");
}

#[test]
fn a_command_waits_for_a_slot_only_while_all_matching_workers_are_busy() {
    let any = r#"{"pool": "default", "slots": 2}"#;
    let sessions = [session("a", PLAIN), session("b", any)];
    let busy = WorkerFleet::new(&sessions, &[lease("a"), lease("b"), lease("b")], &[]);
    let waiting = busy.waiting_reason(&pending("default", &["http"]));
    assert_eq!(waiting.cause, WaitingCause::NoFreeSlot);
    assert!(waiting.detail.contains("all 3 slots of the 2 workers"), "{waiting:?}");
    let free = WorkerFleet::new(&sessions, &[lease("a"), lease("b")], &[]);
    assert_eq!(cause(&free, &pending("default", &["http"])), WaitingCause::Starting);
}

#[test]
fn the_state_of_the_run_comes_before_the_workers() {
    let process = |owner: &str, is_alive| StoreProcess {
        owner: OwnerId(owner.into()),
        address: None,
        heartbeat_at: None,
        is_alive,
        publishes: false,
    };
    let fleet = WorkerFleet::new(&[], &[], &[process("here", true), process("gone", false)]);
    let with = |change: &dyn Fn(&mut PendingCommand)| {
        let mut pending = pending("gpu", &[]);
        change(&mut pending);
        cause(&fleet, &pending)
    };
    assert_eq!(
        with(&|pending| pending.status = RunStatus::Paused),
        WaitingCause::RunPaused
    );
    assert_eq!(with(&|pending| pending.is_cancelling = true), WaitingCause::RunStopping);
    assert_eq!(
        with(&|pending| pending.owner = Some(OwnerId("gone".into()))),
        WaitingCause::OwnerGone
    );
    assert_eq!(
        with(&|pending| pending.owner = Some(OwnerId("here".into()))),
        WaitingCause::NoWorkerInPool
    );
}

#[test]
fn a_queue_has_one_entry_for_each_set_of_kinds() {
    let fleet = WorkerFleet::new(&[], &[], &[]);
    let mut younger = pending("gpu", &["http"]);
    younger.issued_at = Time(8);
    let commands = [pending("gpu", &["http"]), pending("gpu", &["shell"]), younger];
    let entries = group_by_kinds(&Name::from("gpu"), &commands, &fleet);
    let counts: Vec<_> = entries
        .iter()
        .map(|entry| (entry.kinds[0].as_str(), entry.commands))
        .collect();
    assert_eq!(counts, [("http", 2), ("shell", 1)]);
    assert_eq!(entries[0].oldest_at, Time(5));
}
