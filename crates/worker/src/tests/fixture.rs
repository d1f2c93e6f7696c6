//! Fixtures: a fake server, a scripted tool, and helpers for assertions.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use model::command::{Command, CommandWork, Continuation, PipelineCursor, PipelineStage, ReportEnd};
use model::event::{Event, EventBody, EventKind, EventLocation, EventSource, ReportedEvent};
use model::id::{CommandId, EventId, ExecutionId, LeaseEpoch, PlaybookHash, Seq, StepRunId, WorkerId};
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::raw::RawJson;
use model::result_ref::{ResolvedRef, ResultRef};
use model::source::SourceText;
use model::step_pointer::LoopPointer;
use model::time::Time;
use serde_json::{Map, Value};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tools::{Call, LogSink, Registry, Tool, ToolResult};
use wire::api::{ClaimRequest, HeartbeatRequest, SecretsRequest};
use wire::{
    ByteStream, ClaimedCommand, CommandNotice, Error, ExecutionContext, ReportRequest, ReportResponse, ResolvedSecret,
    ResumePoint, SecretValue, Transport, Verdict,
};

use crate::{Clock, Config, LogLine, LogStream, TaskLogSink, Worker};

/// Builds a line that a task of the execution printed.
pub(crate) fn log_line(text: &str) -> LogLine {
    LogLine {
        time: Time(1),
        execution: EXECUTION,
        step: "s".into(),
        run: 1,
        iteration: None,
        task: "t".into(),
        visit: 1,
        attempt: 1,
        stream: LogStream::Stdout,
        text: text.to_owned(),
    }
}

pub(super) const EXECUTION: ExecutionId = ExecutionId(7);

/// Token of the credential `api`.
pub(super) const CANARY: &str = "canary-0123456789";

/// Response of the server to one report.
#[derive(Debug)]
pub(super) enum FakeReply {
    Verdict(Verdict),
    Assigns(Box<ClaimedCommand>),
    Fenced,
    Unavailable,
    Refused,
}

/// Fake server that accepts every report.
pub(super) struct FakeServer {
    offers: Mutex<VecDeque<ClaimedCommand>>,
    offer_added: Notify,
    pub(super) reports: watch::Sender<Vec<ReportRequest>>,
    pub(super) report_attempts: watch::Sender<u32>,
    pub(super) replies: Mutex<VecDeque<FakeReply>>,
    pub(super) log: Mutex<BTreeMap<Seq, Event>>,
    notices: Mutex<Vec<CommandNotice>>,
    notice_added: Notify,
    text: SourceText,
    /// Secrets by name.
    pub(super) secrets: BTreeMap<String, Value>,
    pub(super) secret_requests: Mutex<Vec<SecretsRequest>>,
}

impl FakeServer {
    pub(super) fn offer(&self, claimed: ClaimedCommand) {
        self.offers.lock().unwrap().push_back(claimed);
        self.offer_added.notify_one();
    }

    fn take_offers(&self, max: usize) -> Vec<ClaimedCommand> {
        let mut offers = self.offers.lock().unwrap();
        let count = offers.len().min(max);
        offers.drain(..count).collect()
    }

    pub(super) fn send_notice(&self, seq: u64, verdict: Verdict) {
        let command = command_id(seq);
        self.notices.lock().unwrap().push(CommandNotice { command, verdict });
        self.notice_added.notify_one();
    }

    pub(super) fn reply_with(&self, replies: impl IntoIterator<Item = FakeReply>) {
        self.replies.lock().unwrap().extend(replies);
    }

    /// Adds an event to the log that no worker reported.
    pub(super) fn append_event(&self, event: Event) {
        self.log.lock().unwrap().insert(event.seq, event);
    }

    /// Waits for the end of a command and returns all reports.
    pub(super) async fn wait_for_end(&self, seq: u64) -> Vec<ReportRequest> {
        let command = command_id(seq);
        let is_last = |report: &ReportRequest| report.command == command && report.end != ReportEnd::Open;
        let mut reports = self.reports.subscribe();
        let reports = reports.wait_for(|reports| reports.iter().any(is_last)).await;
        reports.unwrap().clone()
    }
}

#[async_trait]
impl Transport for FakeServer {
    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<ClaimedCommand>, Error> {
        let wait = async {
            loop {
                let offers = self.take_offers(request.max as usize);
                if !offers.is_empty() {
                    return offers;
                }
                self.offer_added.notified().await;
            }
        };
        Ok(tokio::time::timeout(request.wait(), wait).await.unwrap_or_default())
    }

    async fn report(&self, mut report: ReportRequest) -> Result<ReportResponse, Error> {
        self.report_attempts.send_modify(|attempts| *attempts += 1);
        let reply = self.replies.lock().unwrap().pop_front();
        let (verdict, next) = match reply {
            None => (Verdict::Proceed, Vec::new()),
            Some(FakeReply::Verdict(verdict)) => (verdict, Vec::new()),
            Some(FakeReply::Assigns(next)) => (Verdict::Proceed, vec![*next]),
            Some(FakeReply::Fenced) => return Err(Error::Fenced(report.command)),
            Some(FakeReply::Unavailable) => return Err(Error::Unavailable("down".into())),
            Some(FakeReply::Refused) => return Err(Error::Refused("odd".to_owned())),
        };
        let mut log = self.log.lock().unwrap();
        for event in &mut report.events {
            let last = log.last_key_value().map_or(Seq(0), |(seq, _)| *seq);
            event.seq = last.next();
            let id = EventId(i64::try_from(event.seq.0).unwrap());
            log.insert(event.seq, event.clone().with_id(id));
        }
        self.reports.send_modify(|sent| sent.push(report));
        Ok(ReportResponse { verdict, next })
    }

    async fn heartbeat(&self, _pulse: &HeartbeatRequest) -> Result<(), Error> {
        Ok(())
    }

    async fn leave(&self, _worker: &WorkerId) -> Result<(), Error> {
        Ok(())
    }

    async fn listen(&self, _worker: &WorkerId) -> Result<Vec<CommandNotice>, Error> {
        self.notice_added.notified().await;
        Ok(std::mem::take(&mut *self.notices.lock().unwrap()))
    }

    async fn playbook(&self, _hash: &PlaybookHash) -> Result<SourceText, Error> {
        Ok(self.text.clone())
    }

    async fn events(&self, _run: ExecutionId, seqs: &[Seq]) -> Result<Vec<Event>, Error> {
        let log = self.log.lock().unwrap();
        Ok(seqs.iter().filter_map(|seq| log.get(seq).cloned()).collect())
    }

    async fn loop_results(&self, _run: ExecutionId, _at: &LoopPointer) -> Result<RawJson, Error> {
        Err(Error::NotFound("no loop".to_owned()))
    }

    async fn manifest(&self, reference: &ResultRef) -> Result<ByteStream, Error> {
        Err(Error::NotFound(reference.uri.clone()))
    }

    async fn resolve_ref(&self, uri: &str) -> Result<ResolvedRef, Error> {
        Err(Error::NotFound(uri.to_owned()))
    }

    async fn secrets(&self, request: &SecretsRequest) -> Result<Vec<ResolvedSecret>, Error> {
        self.secret_requests.lock().unwrap().push(request.clone());
        let secret = |name: &String| {
            let value = self.secrets.get(name).cloned().ok_or(Error::SecretsRefused {
                is_transient: name.starts_with("passing"),
                code: "CREDENTIAL_NOT_FOUND".to_owned(),
                detail: format!("credential `{name}` not found"),
            })?;
            Ok(ResolvedSecret {
                name: name.clone(),
                value: SecretValue::new(value),
                valid_for: Duration::from_secs(60),
            })
        };
        request.names.iter().map(secret).collect()
    }
}

/// What the scripted tool does when it is called.
pub(super) enum Behaviour {
    Returns(Outcome),
    ReturnsAfter(Duration, Outcome),
    Hangs,
    Panics,
}

type Script = dyn Fn(&Call) -> Behaviour + Send + Sync;

/// A tool with side effects that follows the test's script. Playbooks use it as kind `shell`.
pub(super) struct ScriptedTool {
    pub(super) calls: watch::Sender<Vec<Call>>,
    pub(super) concurrency: Mutex<(u32, u32)>,
    script: Box<Script>,
}

#[async_trait]
impl Tool for ScriptedTool {
    async fn run(&self, call: Call, stop: &CancellationToken, log: &dyn LogSink) -> ToolResult {
        {
            let mut running = self.concurrency.lock().unwrap();
            running.0 += 1;
            running.1 = running.1.max(running.0);
        }
        log.write_line(model::task_log::LogStream::Stdout, "called");
        let behaviour = (self.script)(&call);
        self.calls.send_modify(|calls| calls.push(call));
        let outcome = match behaviour {
            Behaviour::Returns(outcome) => outcome,
            Behaviour::ReturnsAfter(span, outcome) => {
                tokio::time::sleep(span).await;
                outcome
            }
            Behaviour::Hangs => {
                stop.cancelled().await;
                let error = TaskError::new(ErrorKind::Cancelled, "CANCELLED", "stopped");
                Outcome::error(error)
            }
            Behaviour::Panics => panic!("the scripted tool panics"),
        };
        self.concurrency.lock().unwrap().0 -= 1;
        Ok(outcome)
    }
}

/// A clock that follows the runtime's paused time.
struct TestClock(Instant);

#[async_trait]
impl Clock for TestClock {
    fn now(&self) -> Time {
        Time(1_000_000).after(self.0.elapsed())
    }

    async fn sleep_until(&self, due: Time) {
        tokio::time::sleep(due.since(self.now())).await;
    }
}

/// Body store in memory.
#[derive(Default)]
pub(super) struct MemoryBodyStore(pub(super) Mutex<BTreeMap<String, Bytes>>);

#[async_trait]
impl results::BodyStore for MemoryBodyStore {
    async fn put(&self, body: results::BodySource<'_>) -> Result<results::StoredBody, results::Error> {
        let results::BodySource::Bytes(bytes) = body else {
            panic!("the worker stores bytes, not streams")
        };
        let sha256 = PlaybookHash::from_text(std::str::from_utf8(&bytes).unwrap()).to_string();
        let count = bytes.len() as u64;
        self.0.lock().unwrap().insert(sha256.clone(), bytes);
        Ok(results::StoredBody {
            sha256,
            bytes: count,
            store: "memory",
            compression: None,
            location: Map::new(),
        })
    }

    async fn get(&self, reference: &ResultRef) -> Result<Bytes, results::Error> {
        let body = self.0.lock().unwrap().get(&reference.meta.sha256).cloned();
        body.ok_or_else(|| results::Error::NotAvailable {
            uri: reference.uri.clone(),
        })
    }

    async fn delete(&self, reference: &ResultRef) -> Result<(), results::Error> {
        self.0.lock().unwrap().remove(&reference.meta.sha256);
        Ok(())
    }
}

#[derive(Default)]
pub(super) struct RecordedLines(pub(super) Mutex<Vec<LogLine>>);

impl TaskLogSink for RecordedLines {
    fn write_line(&self, line: &LogLine) {
        self.0.lock().unwrap().push(line.clone());
    }
}

/// A running worker with its fakes.
pub(super) struct WorkerFixture {
    pub(super) server: Arc<FakeServer>,
    pub(super) tool: Arc<ScriptedTool>,
    pub(super) bodies: Arc<MemoryBodyStore>,
    pub(super) lines: Arc<RecordedLines>,
    pub(super) stop: CancellationToken,
    pub(super) worker: tokio::task::JoinHandle<crate::WorkEnd>,
}

impl WorkerFixture {
    /// Runs a command of step `s` and returns all reports.
    pub(super) async fn run(&self, work: CommandWork) -> Vec<ReportRequest> {
        self.run_claimed(claimed_command("s", 5, work)).await
    }

    /// Runs the pipeline of step `s` and returns all reports.
    pub(super) async fn run_pipeline(&self) -> Vec<ReportRequest> {
        self.run(CommandWork::Pipeline).await
    }

    /// Runs a claimed command and returns all reports.
    pub(super) async fn run_claimed(&self, claimed: ClaimedCommand) -> Vec<ReportRequest> {
        let seq = claimed.command.id.seq.0;
        self.server.offer(claimed);
        self.server.wait_for_end(seq).await
    }
}

/// Starts a worker for a playbook with these steps.
pub(super) fn start_worker(steps: &str, script: impl Fn(&Call) -> Behaviour + Send + Sync + 'static) -> WorkerFixture {
    start_worker_for(&playbook(steps), script)
}

/// Starts a worker for this playbook.
pub(super) fn start_worker_for(
    text: &str,
    script: impl Fn(&Call) -> Behaviour + Send + Sync + 'static,
) -> WorkerFixture {
    let parsed = language::playbook::parse("t.yaml", text.as_bytes());
    assert!(!parsed.has_errors(), "{:#?}", parsed.diagnostics);
    let server = Arc::new(FakeServer {
        offers: Mutex::default(),
        offer_added: Notify::new(),
        reports: watch::Sender::default(),
        report_attempts: watch::Sender::default(),
        replies: Mutex::default(),
        log: Mutex::default(),
        notices: Mutex::default(),
        notice_added: Notify::new(),
        text: SourceText {
            name: "t.yaml".into(),
            text: text.into(),
        },
        secrets: BTreeMap::from([(
            "api".to_owned(),
            serde_json::json!({"type": "bearer", "token": CANARY, "user": "someone"}),
        )]),
        secret_requests: Mutex::default(),
    });
    let tool = Arc::new(ScriptedTool {
        calls: watch::Sender::default(),
        concurrency: Mutex::default(),
        script: Box::new(script),
    });
    let mut tools = Registry::builtin(tools::Config::default());
    tools.insert("shell", tool.clone());
    let bodies = Arc::new(MemoryBodyStore::default());
    let lines = Arc::new(RecordedLines::default());
    let config = Config {
        worker: WorkerId("w".into()),
        pool: "default".into(),
        kinds: None,
        slots: 2,
        tools,
        bodies: bodies.clone(),
        logs: lines.clone(),
        clock: Arc::new(TestClock(Instant::now())),
        env: Map::from_iter([("HOME".to_owned(), "/home/u".into())]),
        base_dir: "/nowhere".into(),
        scratch_dir: std::env::temp_dir().join("noetl-worker-tests"),
        heartbeat: Duration::from_secs(5),
        playbooks: language::playbook::SharedPlaybooks::default(),
        jumps_max: pipeline::JUMPS_MAX,
    };
    let stop = CancellationToken::new();
    let worker = Worker::new(config, server.clone()).run(stop.clone());
    WorkerFixture {
        worker: tokio::spawn(worker),
        server,
        tool,
        bodies,
        lines,
        stop,
    }
}

/// Builds a playbook with these steps.
pub(super) fn playbook(steps: &str) -> String {
    format!("apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: t}}\nworkload: {{n: 3}}\nworkflow:\n{steps}")
}

pub(super) fn command_id(seq: u64) -> CommandId {
    CommandId {
        execution: EXECUTION,
        seq: Seq(seq),
    }
}

/// Builds a claim of the first run of a step.
pub(super) fn claimed_command(step: &str, seq: u64, work: CommandWork) -> ClaimedCommand {
    let context = ExecutionContext::new(
        EXECUTION,
        "t".into(),
        RawJson::from_serializable(&serde_json::json!({"n": 3})),
    );
    ClaimedCommand {
        command: Command {
            id: command_id(seq),
            playbook: PlaybookHash::from_text("t"),
            run: StepRunId {
                step: step.into(),
                run: 1,
            },
            work,
            dispatch: 1,
            pool: "default".into(),
            args: None,
            loop_started: matches!(work, CommandWork::Range { .. } | CommandWork::Iteration { .. }).then_some(Seq(1)),
        },
        lease_epoch: LeaseEpoch(1),
        context: Arc::new(context),
        resume: Vec::new(),
        finished: Vec::new(),
    }
}

/// Builds the resume point of a pipeline that has started.
pub(super) fn resume_point(iteration: Option<u64>, continuation: Continuation) -> ResumePoint {
    ResumePoint {
        iteration,
        continuation,
        started: true,
    }
}

/// Returns the event names of each report.
pub(super) fn event_kinds(reports: &[ReportRequest]) -> Vec<Vec<&'static str>> {
    let names = |report: &ReportRequest| report.events.iter().map(|event| event.kind().name()).collect();
    reports.iter().map(names).collect()
}

/// Returns all events of one kind.
pub(super) fn events_of_kind(reports: &[ReportRequest], kind: EventKind) -> Vec<ReportedEvent> {
    let events = reports.iter().flat_map(|report| &report.events);
    events.filter(|event| event.kind() == kind).cloned().collect()
}

/// Returns an event's payload.
pub(super) fn payload(event: &ReportedEvent) -> Value {
    event.body.payload().to_value()
}

/// Builds a retryable failure.
pub(super) fn failed_outcome(code: &str) -> Outcome {
    Outcome::error(TaskError::new(ErrorKind::ServerError, code, "it failed"))
}

/// Payload of the first event of a kind.
pub(super) fn first_payload(reports: &[ReportRequest], kind: EventKind) -> Value {
    payload(&events_of_kind(reports, kind)[0])
}

/// Error of the failed step.
pub(super) fn step_error(reports: &[ReportRequest]) -> Value {
    first_payload(reports, EventKind::StepFailed)["error"].clone()
}

/// Builds an event of the server.
pub(super) fn server_event(seq: u64, body: EventBody) -> Event {
    Event {
        event_id: EventId(1),
        execution_id: EXECUTION,
        seq: Seq(seq),
        cause_seq: None,
        timestamp: Time(0),
        recorded_at: Time(0),
        source: EventSource::Server,
        location: EventLocation::default(),
        duration_ms: None,
        worker_id: None,
        trace_id: None,
        meta: None,
        body,
    }
}

/// Builds the continuation of a pipeline in the first visit of a task.
pub(super) fn continuation_at(label: &str, attempt: u32, stage: PipelineStage) -> Continuation {
    Continuation {
        cursor: PipelineCursor::At(label.into()),
        visits: [(label.into(), 1)].into(),
        attempt,
        stage,
        ..Continuation::default()
    }
}
