//! Runs a case with the engine alone: one worker, virtual time, and only the faults that the case defines.

use std::time::Duration;

use engine::{Input, Report};
use model::command::ReportEnd;
use model::event::StopRequested;
use model::id::{ExecutionId, WorkerId};
use model::raw::Raw;
use model::status::RunStatus;
use model::time::Time;

use crate::conformance::agenda::{Again, Agenda, What};
use crate::conformance::case::Case;
use crate::conformance::normal::{Log, normalise};
use crate::conformance::script::Script;
use crate::world::{Acted, Broken, Hand, Honest, Order, Posted, Server, log};

/// A case that has not ended after this many actions hangs.
const ACTIONS_MAX: usize = 200_000;
/// How long a claim lasts without a heartbeat.
const TTL: Duration = Duration::from_secs(15);

/// Outcome of a case.
#[derive(Debug, Clone)]
pub struct Ran {
    /// The normalized logs.
    pub text: String,
    /// Status of the root.
    pub status: RunStatus,
    /// The original logs, the root's first.
    pub logs: Vec<Log>,
}

struct Running {
    server: Server,
    script: Script,
    hands: Vec<Hand>,
    worker: WorkerId,
    workers: u32,
    root: ExecutionId,
    latest: ExecutionId,
    executions: Vec<ExecutionId>,
    agenda: Agenda,
    began: Time,
}

/// Runs a case until it ends.
pub fn run(case: &Case) -> Result<Ran, String> {
    let problem = |error: Broken| error.to_string();
    let mut server = Server::new(1, case.limits, Box::new(Honest));
    server.jumps_max = case.jumps_max;
    for (path, text) in &case.children {
        valid(path, text)?;
        server.register(path, text).map_err(problem)?;
    }
    valid("playbook.yaml", &case.playbook)?;
    server
        .register("playbook", &case.playbook)
        .map_err(problem)?;
    let payload = case.payload.as_ref().map(Raw::of);
    let began = server.now();
    let root = server.submit("playbook", payload).map_err(problem)?;
    let root = root.ok_or("the playbook is not in the catalog")?;
    for text in &case.versions {
        valid("playbook.yaml", text)?;
        server.register("playbook", text).map_err(problem)?;
    }
    let mut running = Running {
        server,
        script: case.script.clone(),
        hands: Vec::new(),
        worker: WorkerId("worker-1".into()),
        workers: 1,
        root,
        latest: root,
        executions: vec![root],
        agenda: case.agenda(),
        began,
    };
    running.go().map_err(problem)?;
    running.ran()
}

fn valid(name: &str, text: &str) -> Result<(), String> {
    let parsed = model::playbook::parse(name, text.as_bytes());
    if parsed.playbook.is_some() {
        Ok(())
    } else {
        let style = model::diagnostic::Style {
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

impl Running {
    fn go(&mut self) -> Result<(), Broken> {
        for _ in 0..ACTIONS_MAX {
            self.server.renew(&self.worker, TTL)?;
            let moved = self.happen()?
                || self.deliver()?
                || self.fire()?
                || self.lose()?
                || self.take()?
                || self.act()?;
            if !moved && !self.move_time()? {
                break;
            }
        }
        Ok(())
    }

    /// Sends one input of the case that is due.
    fn happen(&mut self) -> Result<bool, Broken> {
        let log = log(&self.server.store, self.root);
        let elapsed = self.server.now().since(self.began);
        let Some(what) = self.agenda.take_due(elapsed, &log) else {
            return Ok(false);
        };
        let input = match what {
            What::Cancel { cascade } => Input::Cancel(StopRequested {
                cascade,
                ..StopRequested::default()
            }),
            What::Finalize(ending) => Input::Cancel(StopRequested {
                ending: Some(ending),
                ..StopRequested::default()
            }),
            What::Rerun(again) => {
                self.rerun(again)?;
                return Ok(true);
            }
            What::Pause => Input::Pause { reason: None },
            What::Resume => Input::Resume,
            What::Retry(version) => Input::Retry {
                switch: self.server.switch(self.root, version)?,
            },
            What::Signal(name, payload) => Input::Signal {
                name,
                payload: payload.as_ref().map(Raw::of),
            },
            What::Patch(patch) => Input::Patch(Raw::of(&patch)),
            What::Crash => {
                self.crash();
                return Ok(true);
            }
        };
        let paused = matches!(input, Input::Pause { .. });
        self.server.post(0, self.root, input, None)?;
        if paused {
            self.hands
                .iter_mut()
                .for_each(|hand| hand.tell(Order::Yield));
        }
        Ok(true)
    }

    /// Reruns the root or its latest rerun.
    fn rerun(&mut self, again: Again) -> Result<(), Broken> {
        let of = if again.latest { self.latest } else { self.root };
        if let Some(execution) = self.server.rerun(of, again)? {
            self.latest = execution;
            self.executions.push(execution);
        }
        Ok(())
    }

    /// The worker dies, and another one replaces it.
    fn crash(&mut self) {
        self.hands.clear();
        self.workers += 1;
        self.worker = WorkerId(format!("worker-{}", self.workers).into());
    }

    fn deliver(&mut self) -> Result<bool, Broken> {
        let Some(message) = self.server.inbox()?.into_iter().next() else {
            return Ok(false);
        };
        self.server.deliver(0, &message)?;
        if !self.executions.contains(&message.to) && self.server.state(0, message.to)?.is_some() {
            self.executions.push(message.to);
        }
        Ok(true)
    }

    fn fire(&mut self) -> Result<bool, Broken> {
        let Some((execution, timer)) = self.server.due_timers()?.into_iter().next() else {
            return Ok(false);
        };
        self.server.post(0, execution, Input::Timer(timer), None)?;
        Ok(true)
    }

    /// Reports the claims of dead workers as lost, so that their commands are offered again.
    fn lose(&mut self) -> Result<bool, Broken> {
        let lost = self.server.lost_claims()?;
        for claim in &lost {
            let input = Input::Lost {
                command: claim.command.seq,
                worker: claim.worker.clone(),
                lease_epoch: claim.lease_epoch,
                is_strike: true,
            };
            self.server.post(0, claim.command.execution, input, None)?;
        }
        Ok(!lost.is_empty())
    }

    fn take(&mut self) -> Result<bool, Broken> {
        let hands = self.server.claim(0, &self.worker, u32::MAX)?;
        let took = !hands.is_empty();
        self.hands.extend(hands);
        Ok(took)
    }

    /// Performs one action of the first command that can act, and reports it.
    fn act(&mut self) -> Result<bool, Broken> {
        for (command, order) in std::mem::take(&mut self.server.told) {
            let held = self
                .hands
                .iter_mut()
                .filter(|hand| hand.command.id == command);
            held.for_each(|hand| hand.tell(order));
        }
        let now = self.server.now();
        for index in 0..self.hands.len() {
            let hand = &mut self.hands[index];
            match hand.act(&self.server.store, &mut self.script, now, 0) {
                Acted::Waits(_) => {}
                Acted::Went | Acted::Over(_) => {
                    self.report(index)?;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn report(&mut self, index: usize) -> Result<(), Broken> {
        let hand = &mut self.hands[index];
        let end = hand.end();
        if hand.outbox.is_empty() && end.is_none() {
            return Ok(());
        }
        let report = Report {
            command: hand.command.id.seq,
            worker: hand.worker.clone(),
            lease_epoch: hand.epoch,
            events: std::mem::take(&mut hand.outbox),
            end: end.unwrap_or(ReportEnd::Open),
        };
        let command = hand.command.id;
        let posted = self
            .server
            .post(0, command.execution, Input::Report(report), None)?;
        if end.is_some() || matches!(posted, Posted::Refused(_)) {
            self.hands.remove(index);
        } else {
            let order = self.server.verdict(0, command)?;
            self.hands[index].tell(order);
        }
        Ok(())
    }

    /// Advances to the next time at which something happens. Returns false if there is none.
    fn move_time(&mut self) -> Result<bool, Broken> {
        let now = self.server.now();
        let mut next = self.server.next_timer()?;
        let mut sooner = |time: Time| next = Some(next.map_or(time, |next| next.min(time)));
        for span in self.agenda.times() {
            sooner(self.began.after(span));
        }
        for hand in &mut self.hands {
            let acted = hand.act(&self.server.store, &mut self.script, now, 0);
            if let Acted::Waits(until) = acted {
                sooner(until);
            }
        }
        if self.server.has_stray_claims(&self.worker)? {
            sooner(now.after(TTL));
        }
        if let Some(by) = self.server.next_overdue()? {
            sooner(by);
        }
        match next.filter(|next| *next > now) {
            Some(next) => {
                self.server.move_on_to(next);
                self.server.sweep_overdue(0)?;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn ran(&mut self) -> Result<Ran, String> {
        let mut logs = Vec::new();
        for (index, execution) in self.executions.clone().into_iter().enumerate() {
            let events = log(&self.server.store, execution);
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
            logs.push(Log { name, events });
        }
        let state = self
            .server
            .state(0, self.root)
            .map_err(|error| error.to_string())?;
        let status = state
            .map(engine::State::status)
            .ok_or("the case has no root")?;
        Ok(Ran {
            text: normalise(&logs),
            status,
            logs,
        })
    }
}
