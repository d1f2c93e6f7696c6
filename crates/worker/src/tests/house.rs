//! Fixtures: a fake server, a scripted tool, and helpers for assertions.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use model::command::ReportEnd;
use model::command::{Command, Continuation, Work};
use model::event::{Event, Kind};
use model::id::{CommandId, ExecutionId, LeaseEpoch, PlaybookHash, Seq, StepRunId, WorkerId};
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::raw::Raw;
use model::result_ref::{Resolved, ResultRef};
use model::template::LoopPointer;
use model::time::Time;
use serde_json::{Map, Value};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tools::{Call, LogSink, Registry, Tool};
use wire::{
    Ask, Claimed, Context, Error, Pieces, PlaybookText, Pulse, Receipt, Report, Resume, Secret,
    SecretValue, SecretsAsk, Told, Transport, Verdict,
};

use crate::{Clock, Config, LogLine, LogStream, Logs, Worker};

/// Builds a line that a task of the execution printed.
pub(crate) fn log_line(text: &str) -> LogLine {
    LogLine {
        time: Time(1),
        execution: RUN,
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

pub(super) const RUN: ExecutionId = ExecutionId(7);

/// Token of the credential `api`.
pub(super) const CANARY: &str = "canary-0123456789";

/// Response of the server to one report.
#[derive(Debug)]
pub(super) enum Answer {
    Says(Verdict),
    Hands(Box<Claimed>),
    Fenced,
    Unavailable,
    Refused,
}

/// Fake server that accepts every report.
pub(super) struct Server {
    offers: Mutex<VecDeque<Claimed>>,
    offered: Notify,
    pub(super) reports: watch::Sender<Vec<Report>>,
    pub(super) tried: watch::Sender<u32>,
    pub(super) answers: Mutex<VecDeque<Answer>>,
    pub(super) log: Mutex<BTreeMap<Seq, Event>>,
    told: Mutex<Vec<Told>>,
    telling: Notify,
    text: PlaybookText,
    /// Secrets by name.
    pub(super) secrets: BTreeMap<String, Value>,
    pub(super) asked: Mutex<Vec<SecretsAsk>>,
}

impl Server {
    pub(super) fn offer(&self, claimed: Claimed) {
        self.offers.lock().unwrap().push_back(claimed);
        self.offered.notify_one();
    }

    fn take(&self, max: usize) -> Vec<Claimed> {
        let mut offers = self.offers.lock().unwrap();
        let count = offers.len().min(max);
        offers.drain(..count).collect()
    }

    pub(super) fn tell(&self, seq: u64, verdict: Verdict) {
        let command = command_id(seq);
        self.told.lock().unwrap().push(Told { command, verdict });
        self.telling.notify_one();
    }

    pub(super) fn answer(&self, answers: impl IntoIterator<Item = Answer>) {
        self.answers.lock().unwrap().extend(answers);
    }

    /// Adds an event to the log that no worker reported.
    pub(super) fn write(&self, event: Event) {
        self.log.lock().unwrap().insert(event.seq, event);
    }

    /// Waits for the end of a command and returns all reports.
    pub(super) async fn ended(&self, seq: u64) -> Vec<Report> {
        let command = command_id(seq);
        let is_over = |report: &Report| report.command == command && report.end != ReportEnd::Open;
        let mut reports = self.reports.subscribe();
        let all = reports.wait_for(|all| all.iter().any(is_over)).await;
        all.unwrap().clone()
    }
}

#[async_trait]
impl Transport for Server {
    async fn claim(&self, ask: &Ask) -> Result<Vec<Claimed>, Error> {
        let wait = async {
            loop {
                let found = self.take(ask.max as usize);
                if !found.is_empty() {
                    return found;
                }
                self.offered.notified().await;
            }
        };
        Ok(tokio::time::timeout(ask.wait, wait)
            .await
            .unwrap_or_default())
    }

    async fn report(&self, mut report: Report) -> Result<Receipt, Error> {
        self.tried.send_modify(|tried| *tried += 1);
        let answer = self.answers.lock().unwrap().pop_front();
        let (verdict, next) = match answer {
            None => (Verdict::Proceed, Vec::new()),
            Some(Answer::Says(verdict)) => (verdict, Vec::new()),
            Some(Answer::Hands(next)) => (Verdict::Proceed, vec![*next]),
            Some(Answer::Fenced) => return Err(Error::Fenced(report.command)),
            Some(Answer::Unavailable) => return Err(Error::Unavailable("down".into())),
            Some(Answer::Refused) => return Err(Error::Refused("odd".to_owned())),
        };
        let mut log = self.log.lock().unwrap();
        for event in &mut report.events {
            let last = log.last_key_value().map_or(Seq(0), |(seq, _)| *seq);
            event.seq = last.next();
            log.insert(event.seq, event.clone());
        }
        self.reports.send_modify(|all| all.push(report));
        Ok(Receipt { verdict, next })
    }

    async fn heartbeat(&self, _pulse: &Pulse) -> Result<(), Error> {
        Ok(())
    }

    async fn leave(&self, _worker: &WorkerId) -> Result<(), Error> {
        Ok(())
    }

    async fn listen(&self, _worker: &WorkerId) -> Result<Vec<Told>, Error> {
        self.telling.notified().await;
        Ok(std::mem::take(&mut *self.told.lock().unwrap()))
    }

    async fn playbook(&self, _hash: &PlaybookHash) -> Result<PlaybookText, Error> {
        Ok(self.text.clone())
    }

    async fn events(&self, _run: ExecutionId, seqs: &[Seq]) -> Result<Vec<Event>, Error> {
        let log = self.log.lock().unwrap();
        Ok(seqs
            .iter()
            .filter_map(|seq| log.get(seq).cloned())
            .collect())
    }

    async fn loop_results(&self, _run: ExecutionId, _at: &LoopPointer) -> Result<Raw, Error> {
        Err(Error::NotFound("no loop".to_owned()))
    }

    async fn manifest(&self, reference: &ResultRef) -> Result<Pieces, Error> {
        Err(Error::NotFound(reference.uri.clone()))
    }

    async fn look_up(&self, uri: &str) -> Result<Resolved, Error> {
        Err(Error::NotFound(uri.to_owned()))
    }

    async fn secrets(&self, ask: &SecretsAsk) -> Result<Vec<Secret>, Error> {
        self.asked.lock().unwrap().push(ask.clone());
        let secret = |name: &String| {
            let value = self.secrets.get(name).cloned().ok_or(Error::Denied {
                is_passing: name.starts_with("passing"),
                code: "CREDENTIAL_NOT_FOUND".to_owned(),
                detail: format!("credential `{name}` not found"),
            })?;
            Ok(Secret {
                name: name.clone(),
                value: SecretValue::new(value),
                valid_for: Duration::from_secs(60),
            })
        };
        ask.names.iter().map(secret).collect()
    }
}

/// What the scripted tool does when it is called.
pub(super) enum Behaviour {
    Answers(Outcome),
    Takes(Duration, Outcome),
    Hangs,
    Panics,
}

type Script = dyn Fn(&Call) -> Behaviour + Send + Sync;

/// A tool with side effects that follows the test's script. Playbooks use it as kind `shell`.
pub(super) struct Scripted {
    pub(super) calls: watch::Sender<Vec<Call>>,
    pub(super) most_at_once: Mutex<(u32, u32)>,
    script: Box<Script>,
}

#[async_trait]
impl Tool for Scripted {
    fn is_pure(&self) -> bool {
        false
    }

    async fn call(&self, call: Call, stop: CancellationToken, log: &dyn LogSink) -> Outcome {
        {
            let mut running = self.most_at_once.lock().unwrap();
            running.0 += 1;
            running.1 = running.1.max(running.0);
        }
        log.line(tools::Stream::Stdout, "called");
        let behaviour = (self.script)(&call);
        self.calls.send_modify(|calls| calls.push(call));
        let outcome = match behaviour {
            Behaviour::Answers(outcome) => outcome,
            Behaviour::Takes(span, outcome) => {
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
        self.most_at_once.lock().unwrap().0 -= 1;
        outcome
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
pub(super) struct Memory(pub(super) Mutex<BTreeMap<String, Bytes>>);

#[async_trait]
impl results::Bodies for Memory {
    async fn put(&self, body: results::Source<'_>) -> Result<results::Stored, results::Error> {
        let results::Source::Bytes(bytes) = body else {
            panic!("the worker stores bytes, not streams")
        };
        let sha256 = PlaybookHash::of(std::str::from_utf8(&bytes).unwrap()).to_string();
        let count = bytes.len() as u64;
        self.0.lock().unwrap().insert(sha256.clone(), bytes);
        Ok(results::Stored {
            sha256,
            bytes: count,
            store: "memory",
            compression: None,
            location: Map::new(),
        })
    }

    async fn get(&self, reference: &ResultRef) -> Result<Bytes, results::Error> {
        let found = self.0.lock().unwrap().get(&reference.meta.sha256).cloned();
        found.ok_or_else(|| results::Error::NotAvailable {
            uri: reference.uri.clone(),
        })
    }

    async fn delete(&self, reference: &ResultRef) -> Result<(), results::Error> {
        self.0.lock().unwrap().remove(&reference.meta.sha256);
        Ok(())
    }
}

#[derive(Default)]
pub(super) struct Lines(pub(super) Mutex<Vec<LogLine>>);

impl Logs for Lines {
    fn line(&self, line: &LogLine) {
        self.0.lock().unwrap().push(line.clone());
    }
}

/// A running worker with its fakes.
pub(super) struct House {
    pub(super) server: Arc<Server>,
    pub(super) tool: Arc<Scripted>,
    pub(super) bodies: Arc<Memory>,
    pub(super) lines: Arc<Lines>,
    pub(super) stop: CancellationToken,
    pub(super) worker: tokio::task::JoinHandle<crate::WorkEnd>,
}

/// Starts a worker for a playbook with these steps.
pub(super) fn house(
    steps: &str,
    script: impl Fn(&Call) -> Behaviour + Send + Sync + 'static,
) -> House {
    house_of(&playbook(steps), script)
}

/// Starts a worker for this playbook.
pub(super) fn house_of(
    text: &str,
    script: impl Fn(&Call) -> Behaviour + Send + Sync + 'static,
) -> House {
    let parsed = model::playbook::parse("t.yaml", text.as_bytes());
    assert!(!parsed.has_errors(), "{:#?}", parsed.diagnostics);
    let server = Arc::new(Server {
        offers: Mutex::default(),
        offered: Notify::new(),
        reports: watch::Sender::default(),
        tried: watch::Sender::default(),
        answers: Mutex::default(),
        log: Mutex::default(),
        told: Mutex::default(),
        telling: Notify::new(),
        text: PlaybookText {
            name: "t.yaml".into(),
            text: text.into(),
        },
        secrets: BTreeMap::from([(
            "api".to_owned(),
            serde_json::json!({"type": "bearer", "token": CANARY, "user": "someone"}),
        )]),
        asked: Mutex::default(),
    });
    let tool = Arc::new(Scripted {
        calls: watch::Sender::default(),
        most_at_once: Mutex::default(),
        script: Box::new(script),
    });
    let mut tools = Registry::builtin(tools::Config::default());
    tools.insert("shell", tool.clone());
    let bodies = Arc::new(Memory::default());
    let lines = Arc::new(Lines::default());
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
        jumps_max: pipeline::JUMPS_MAX,
    };
    let stop = CancellationToken::new();
    let worker = Worker::new(config, server.clone()).run(stop.clone());
    House {
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
    format!(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: t}}\nworkload: {{n: 3}}\nworkflow:\n{steps}"
    )
}

pub(super) fn command_id(seq: u64) -> CommandId {
    CommandId {
        execution: RUN,
        seq: Seq(seq),
    }
}

/// Builds a claim of the first run of a step.
pub(super) fn claimed(step: &str, seq: u64, work: Work) -> Claimed {
    let context = Context::new(RUN, "t".into(), Raw::of(&serde_json::json!({"n": 3})));
    Claimed {
        command: Command {
            id: command_id(seq),
            playbook: PlaybookHash::of("t"),
            run: StepRunId {
                step: step.into(),
                run: 1,
            },
            work,
            dispatch: 1,
            pool: "default".into(),
            args: None,
            loop_started: matches!(work, Work::Range { .. } | Work::Iteration { .. })
                .then_some(Seq(1)),
        },
        lease_epoch: LeaseEpoch(1),
        context: Arc::new(context),
        resume: Vec::new(),
        over: Vec::new(),
    }
}

/// Builds the resume point of a pipeline that has started.
pub(super) fn resume(iteration: Option<u64>, continuation: Continuation) -> Resume {
    Resume {
        iteration,
        continuation,
        started: true,
    }
}

/// Returns the event names of each report.
pub(super) fn kinds(reports: &[Report]) -> Vec<Vec<&'static str>> {
    let names = |report: &Report| {
        report
            .events
            .iter()
            .map(|event| event.kind().name())
            .collect()
    };
    reports.iter().map(names).collect()
}

/// Returns all events of one kind.
pub(super) fn of_kind(reports: &[Report], kind: Kind) -> Vec<Event> {
    let events = reports.iter().flat_map(|report| &report.events);
    events
        .filter(|event| event.kind() == kind)
        .cloned()
        .collect()
}

/// Returns an event's payload.
pub(super) fn payload(event: &Event) -> Value {
    event.body.payload().value()
}

/// Builds a retryable failure.
pub(super) fn failure(code: &str) -> Outcome {
    Outcome::error(TaskError::new(ErrorKind::ServerError, code, "it failed"))
}
