//! A worker's connection to the servers that loses, repeats, delays and misdirects calls.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use model::event::Event;
use model::id::{ExecutionId, LeaseEpoch, PlaybookHash, Seq, WorkerId};
use model::raw::RawJson;
use model::result_ref::{ResolvedRef, ResultRef};
use model::source::SourceText;
use model::step_pointer::LoopPointer;
use tokio::sync::watch;
use wire::api::{ClaimRequest, HeartbeatRequest};
use wire::{ByteStream, ClaimedCommand, CommandNotice, Error, ReportRequest, ReportResponse, Transport, Verdict};

use crate::sim::bug::Bug;
use crate::sim::observer::SimObserver;
use crate::sim::random::SeededRandom;

/// A late report arrives at most this much later; the session of its worker may have expired by then.
const LATE_MAX_SECONDS: u64 = 40;

/// Whether a worker can reach the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkerState {
    /// It runs.
    Running,
    /// It is suspended: its requests are sent when it resumes.
    Frozen,
    /// It is dead.
    Dead,
}

/// The connection of one worker.
pub(crate) struct SimTransport {
    /// Name of the worker.
    pub(crate) worker: String,
    /// The server that the worker is connected to.
    pub(crate) own_server: Arc<dyn Transport>,
    /// Another server, which does not own the executions of the first.
    pub(crate) other_server: Arc<dyn Transport>,
    /// Faults are drawn from it; `None` when faults have stopped.
    pub(crate) faults: Mutex<Option<SeededRandom>>,
    pub(crate) state: watch::Sender<WorkerState>,
    pub(crate) observer: Arc<SimObserver>,
    pub(crate) bug: Option<Bug>,
}

/// What happens to a report.
enum ReportFault {
    None,
    /// The request of the worker times out after this duration; the report may have arrived.
    TimeOutAfter(Duration),
    /// It goes to a server that does not own the execution.
    WrongServer,
    /// It arrives a second time after this time.
    RepeatAfter(Duration),
}

impl SimTransport {
    /// Waits until the worker can send something.
    async fn wait_until_running(&self) {
        let mut state = self.state.subscribe();
        // A dead worker never sends anything again.
        let runs = state.wait_for(|state| *state == WorkerState::Running);
        if runs.await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    fn draw<T>(&self, draw: impl FnOnce(&mut SeededRandom) -> T) -> Option<T> {
        let mut faults = self.faults.lock().expect("no holder panics");
        faults.as_mut().map(draw)
    }

    fn draw_report_fault(&self) -> ReportFault {
        let fault = self.draw(|random| match random.below(100) {
            0..=14 => ReportFault::TimeOutAfter(Duration::from_millis(random.below(30))),
            15..=19 => ReportFault::WrongServer,
            20..=27 => ReportFault::RepeatAfter(Duration::from_millis(random.below(50))),
            28..=32 => ReportFault::RepeatAfter(Duration::from_secs(random.below(LATE_MAX_SECONDS))),
            _ => ReportFault::None,
        });
        fault.unwrap_or(ReportFault::None)
    }

    fn check_claims(&self, commands: &[ClaimedCommand]) {
        for claimed in commands {
            self.observer.check_claim(claimed, &self.worker);
        }
    }

    /// Whether the bug drops this report.
    fn loses(&self, report: &ReportRequest) -> bool {
        let number = report.command.seq.0 + report.events.len() as u64;
        self.bug == Some(Bug::LoseReport) && !report.events.is_empty() && number.is_multiple_of(5)
    }
}

#[async_trait]
impl Transport for SimTransport {
    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<ClaimedCommand>, Error> {
        self.wait_until_running().await;
        let timeout = self.draw(|random| {
            let times_out = random.percent(25);
            times_out.then(|| Duration::from_millis(random.below(30)))
        });
        let call = self.own_server.claim(request);
        let mut commands = match timeout.flatten() {
            Some(timeout) => {
                let reply = tokio::time::timeout(timeout, call).await;
                reply.unwrap_or(Ok(Vec::new()))?
            }
            None => call.await?,
        };
        if self.bug == Some(Bug::ReuseEpoch) {
            for claimed in &mut commands {
                claimed.lease_epoch = LeaseEpoch(1);
            }
        }
        self.check_claims(&commands);
        Ok(commands)
    }

    async fn report(&self, report: ReportRequest) -> Result<ReportResponse, Error> {
        self.wait_until_running().await;
        if self.loses(&report) {
            return Ok(ReportResponse {
                verdict: Verdict::Proceed,
                next: Vec::new(),
            });
        }
        let reply = match self.draw_report_fault() {
            ReportFault::None => self.own_server.report(report).await?,
            ReportFault::WrongServer => self.other_server.report(report).await?,
            ReportFault::TimeOutAfter(timeout) => {
                let call = self.own_server.report(report);
                let reply = tokio::time::timeout(timeout, call).await;
                reply.map_err(|error| Error::Unavailable(Box::new(error)))??
            }
            ReportFault::RepeatAfter(pause) => {
                let reply = self.own_server.report(report.clone()).await?;
                let repeated = ReportRequest { free: 0, ..report };
                let own_server = self.own_server.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(pause).await;
                    // Whether it is accepted or fenced: it must change nothing.
                    let _ = own_server.report(repeated).await;
                });
                reply
            }
        };
        self.check_claims(&reply.next);
        Ok(reply)
    }

    async fn heartbeat(&self, request: &HeartbeatRequest) -> Result<(), Error> {
        self.wait_until_running().await;
        self.own_server.heartbeat(request).await
    }
    async fn leave(&self, worker: &WorkerId) -> Result<(), Error> {
        self.wait_until_running().await;
        self.own_server.leave(worker).await
    }
    async fn listen(&self, worker: &WorkerId) -> Result<Vec<CommandNotice>, Error> {
        self.wait_until_running().await;
        let notices = self.own_server.listen(worker).await?;
        self.wait_until_running().await;
        Ok(notices)
    }
    async fn playbook(&self, hash: &PlaybookHash) -> Result<SourceText, Error> {
        self.own_server.playbook(hash).await
    }
    async fn events(&self, execution: ExecutionId, seqs: &[Seq]) -> Result<Vec<Event>, Error> {
        self.own_server.events(execution, seqs).await
    }
    async fn loop_results(&self, execution: ExecutionId, pointer: &LoopPointer) -> Result<RawJson, Error> {
        self.own_server.loop_results(execution, pointer).await
    }
    async fn manifest(&self, reference: &ResultRef) -> Result<ByteStream, Error> {
        self.own_server.manifest(reference).await
    }
    async fn secrets(&self, request: &wire::api::SecretsRequest) -> Result<Vec<wire::ResolvedSecret>, Error> {
        self.own_server.secrets(request).await
    }
    async fn resolve_ref(&self, uri: &str) -> Result<ResolvedRef, Error> {
        self.own_server.resolve_ref(uri).await
    }
}
