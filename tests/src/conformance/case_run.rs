//! Runs a case with the engine alone: one worker, virtual time, and only the faults that the case defines.

use std::time::Duration;

use engine::{CommandReport, Input};
use model::command::ReportEnd;
use model::event::StopRequest;
use model::id::{ExecutionId, WorkerId};
use model::raw::RawJson;
use model::status::RunStatus;
use model::time::Time;

use crate::conformance::case::Case;
use crate::conformance::input_schedule::{ExternalInput, InputSchedule, RerunInput};
use crate::conformance::normalise::{CaseLog, normalise};
use crate::conformance::script::Script;
use crate::world::{
    ActionResult, InputResult, NoTamper, Order, WorldCommand, WorldError, WorldServer, read_log,
};

/// A case that has not ended after this many actions hangs.
const ACTIONS_MAX: usize = 200_000;
/// How long a claim lasts without a heartbeat.
const LEASE_TTL: Duration = Duration::from_secs(15);

/// Outcome of a case.
#[derive(Debug, Clone)]
pub struct CaseResult {
    /// The normalized logs.
    pub text: String,
    /// Status of the root.
    pub status: RunStatus,
    /// The original logs, the root's first.
    pub logs: Vec<CaseLog>,
}

struct CaseRun {
    server: WorldServer,
    script: Script,
    commands: Vec<WorldCommand>,
    worker: WorkerId,
    workers: u32,
    root: ExecutionId,
    latest: ExecutionId,
    executions: Vec<ExecutionId>,
    schedule: InputSchedule,
    started_at: Time,
}

/// Runs a case until it ends.
pub fn run_case(case: &Case) -> Result<CaseResult, String> {
    let problem = |error: WorldError| error.to_string();
    let mut server = WorldServer::new(1, case.limits, Box::new(NoTamper));
    server.jumps_max = case.jumps_max;
    for (path, text) in &case.children {
        check_playbook(path, text)?;
        server.register(path, text).map_err(problem)?;
    }
    check_playbook("playbook.yaml", &case.playbook)?;
    server
        .register("playbook", &case.playbook)
        .map_err(problem)?;
    let payload = case.payload.as_ref().map(RawJson::from_serializable);
    let began = server.now();
    let root = server.submit("playbook", payload).map_err(problem)?;
    let root = root.ok_or("the playbook is not in the catalog")?;
    for text in &case.versions {
        check_playbook("playbook.yaml", text)?;
        server.register("playbook", text).map_err(problem)?;
    }
    let mut running = CaseRun {
        server,
        script: case.script.clone(),
        commands: Vec::new(),
        worker: WorkerId("worker-1".into()),
        workers: 1,
        root,
        latest: root,
        executions: vec![root],
        schedule: case.schedule(),
        started_at: began,
    };
    running.run_to_end().map_err(problem)?;
    running.build_result()
}

fn check_playbook(name: &str, text: &str) -> Result<(), String> {
    let parsed = language::playbook::parse(name, text.as_bytes());
    if parsed.playbook.is_some() {
        Ok(())
    } else {
        let style = language::diagnostic::DiagnosticStyle {
            color: false,
            unicode: true,
        };
        Err(parsed
            .diagnostics
            .iter()
            .map(|one| one.render(style))
            .collect())
    }
}

impl CaseRun {
    fn run_to_end(&mut self) -> Result<(), WorldError> {
        for _ in 0..ACTIONS_MAX {
            self.server.renew_session(&self.worker, LEASE_TTL)?;
            let moved = self.apply_due_input()?
                || self.deliver_message()?
                || self.fire_timer()?
                || self.reoffer_lost_claims()?
                || self.claim_commands()?
                || self.advance_command()?;
            if !moved && !self.advance_time()? {
                break;
            }
        }
        Ok(())
    }

    /// Sends one input of the case that is due.
    fn apply_due_input(&mut self) -> Result<bool, WorldError> {
        let log = read_log(&self.server.store, self.root);
        let elapsed = self.server.now().since(self.started_at);
        let Some(what) = self.schedule.take_due(elapsed, &log) else {
            return Ok(false);
        };
        let input = match what {
            ExternalInput::Cancel { cascade } => Input::Cancel(StopRequest {
                cascade,
                ..StopRequest::default()
            }),
            ExternalInput::Finalize(ending) => Input::Cancel(StopRequest {
                ending: Some(ending),
                ..StopRequest::default()
            }),
            ExternalInput::Rerun(again) => {
                self.rerun(again)?;
                return Ok(true);
            }
            ExternalInput::Pause => Input::Pause { reason: None },
            ExternalInput::Resume => Input::Resume,
            ExternalInput::Retry(version) => Input::Retry {
                switch: self.server.resolve_switch(self.root, version)?,
            },
            ExternalInput::Signal(name, payload) => Input::Signal {
                name,
                payload: payload.as_ref().map(RawJson::from_serializable),
            },
            ExternalInput::Patch(patch) => Input::Patch(RawJson::from_serializable(&patch)),
            ExternalInput::Crash => {
                self.crash();
                return Ok(true);
            }
        };
        let paused = matches!(input, Input::Pause { .. });
        self.server.apply_input(0, self.root, input, None)?;
        if paused {
            self.commands
                .iter_mut()
                .for_each(|hand| hand.restrict(Order::Yield));
        }
        Ok(true)
    }

    /// Reruns the root or its latest rerun.
    fn rerun(&mut self, rerun_input: RerunInput) -> Result<(), WorldError> {
        let of = if rerun_input.latest {
            self.latest
        } else {
            self.root
        };
        if let Some(execution) = self.server.rerun(of, rerun_input)? {
            self.latest = execution;
            self.executions.push(execution);
        }
        Ok(())
    }

    /// The worker dies, and another one replaces it.
    fn crash(&mut self) {
        self.commands.clear();
        self.workers += 1;
        self.worker = WorkerId(format!("worker-{}", self.workers).into());
    }

    fn deliver_message(&mut self) -> Result<bool, WorldError> {
        let Some(message) = self.server.inbox()?.into_iter().next() else {
            return Ok(false);
        };
        self.server.deliver(0, &message)?;
        if !self.executions.contains(&message.to) && self.server.state(0, message.to)?.is_some() {
            self.executions.push(message.to);
        }
        Ok(true)
    }

    fn fire_timer(&mut self) -> Result<bool, WorldError> {
        let Some((execution, timer)) = self.server.due_timers()?.into_iter().next() else {
            return Ok(false);
        };
        self.server
            .apply_input(0, execution, Input::TimerDue(timer), None)?;
        Ok(true)
    }

    /// Reports the claims of dead workers as lost, so that their commands are offered again.
    fn reoffer_lost_claims(&mut self) -> Result<bool, WorldError> {
        let lost = self.server.lost_claims()?;
        for claim in &lost {
            let input = Input::ClaimLost {
                command: claim.command.seq,
                worker: claim.worker.clone(),
                lease_epoch: claim.lease_epoch,
                is_strike: true,
            };
            self.server
                .apply_input(0, claim.command.execution, input, None)?;
        }
        Ok(!lost.is_empty())
    }

    fn claim_commands(&mut self) -> Result<bool, WorldError> {
        let hands = self.server.claim(0, &self.worker, u32::MAX)?;
        let took = !hands.is_empty();
        self.commands.extend(hands);
        Ok(took)
    }

    /// Performs one action of the first command that can act, and reports it.
    fn advance_command(&mut self) -> Result<bool, WorldError> {
        for (command, order) in std::mem::take(&mut self.server.notices) {
            let held = self
                .commands
                .iter_mut()
                .filter(|hand| hand.command.id == command);
            held.for_each(|hand| hand.restrict(order));
        }
        let now = self.server.now();
        for index in 0..self.commands.len() {
            let hand = &mut self.commands[index];
            match hand.advance(&self.server.store, &mut self.script, now, 0) {
                ActionResult::WaitsUntil(_) => {}
                ActionResult::Progressed | ActionResult::Finished(_) => {
                    self.send_report(index)?;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn send_report(&mut self, index: usize) -> Result<(), WorldError> {
        let hand = &mut self.commands[index];
        let end = hand.report_end();
        if hand.outbox.is_empty() && end.is_none() {
            return Ok(());
        }
        let report = CommandReport {
            command: hand.command.id.seq,
            worker: hand.worker.clone(),
            lease_epoch: hand.epoch,
            events: std::mem::take(&mut hand.outbox),
            end: end.unwrap_or(ReportEnd::Open),
        };
        let command = hand.command.id;
        let posted = self
            .server
            .apply_input(0, command.execution, Input::Report(report), None)?;
        if end.is_some() || matches!(posted, InputResult::Refused(_)) {
            self.commands.remove(index);
        } else {
            let order = self.server.claim_verdict(0, command)?;
            self.commands[index].restrict(order);
        }
        Ok(())
    }

    /// Advances to the next time at which something happens. Returns false if there is none.
    fn advance_time(&mut self) -> Result<bool, WorldError> {
        let now = self.server.now();
        let mut next = self.server.next_timer()?;
        let mut sooner = |time: Time| next = Some(next.map_or(time, |next| next.min(time)));
        for span in self.schedule.times() {
            sooner(self.started_at.after(span));
        }
        for hand in &mut self.commands {
            let acted = hand.advance(&self.server.store, &mut self.script, now, 0);
            if let ActionResult::WaitsUntil(until) = acted {
                sooner(until);
            }
        }
        if self.server.has_stray_claims(&self.worker)? {
            sooner(now.after(LEASE_TTL));
        }
        if let Some(by) = self.server.next_overdue()? {
            sooner(by);
        }
        match next.filter(|next| *next > now) {
            Some(next) => {
                self.server.advance_time(next);
                self.server.sweep_overdue(0)?;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn build_result(&mut self) -> Result<CaseResult, String> {
        let mut logs = Vec::new();
        for (index, execution) in self.executions.clone().into_iter().enumerate() {
            let events = read_log(&self.server.store, execution);
            let state = self
                .server
                .state(0, execution)
                .map_err(|error| error.to_string())?;
            let path = state.map_or_else(String::new, |state| state.path.to_string());
            let name = if index == 0 {
                "root".to_owned()
            } else {
                format!("'{path} {index}'")
            };
            logs.push(CaseLog { name, events });
        }
        let state = self
            .server
            .state(0, self.root)
            .map_err(|error| error.to_string())?;
        let status = state
            .map(engine::ExecutionState::status)
            .ok_or("the case has no root")?;
        Ok(CaseResult {
            text: normalise(&logs),
            status,
            logs,
        })
    }
}
