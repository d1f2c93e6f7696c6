//! Control requests of users and parent executions.

use model::event::{At, Body, Ending, Note, Retried, Signal, StopRequested};
use model::id::Name;
use model::raw::Raw;
use model::size::too_large;

use crate::decide::turn::Turn;
use crate::decide::{Refusal, Undecided};
use crate::input::Switch;
use crate::state::Phase;

impl Turn<'_> {
    fn must_live(&self) -> Result<(), Refusal> {
        if self.state.is_ended() {
            Err(Refusal::Ended)
        } else {
            Ok(())
        }
    }

    pub(super) fn cancel(&mut self, request: StopRequested) -> Result<(), Undecided> {
        self.must_live()?;
        if self.state.stop.is_none() {
            let seq = self.emit(At::default(), Body::CancelRequested(request));
            self.because_of(seq);
        }
        Ok(())
    }

    pub(super) fn pause(&mut self, reason: Option<String>) -> Result<(), Undecided> {
        self.must_live()?;
        if self.state.paused {
            return Err(Refusal::AlreadyPaused.into());
        }
        let seq = self.emit(At::default(), Body::PlaybookPaused(Note { reason }));
        self.because_of(seq);
        Ok(())
    }

    pub(super) fn resume(&mut self) -> Result<(), Undecided> {
        self.must_live()?;
        if !self.state.paused {
            return Err(Refusal::NotPaused.into());
        }
        let seq = self.emit(At::default(), Body::PlaybookResumed(Note { reason: None }));
        self.because_of(seq);
        Ok(())
    }

    pub(super) fn retry(&mut self, switch: Option<&Switch>) -> Result<(), Undecided> {
        let parent = self.state.parent.as_ref();
        let is_awaited = parent.is_some_and(|parent| parent.wait);
        if self.state.phase == Phase::Ended(Ending::Success) && is_awaited {
            // The parent retries because it saw a failure, but this execution has succeeded since.
            return self.tell_parent_again();
        }
        if !matches!(
            self.state.phase,
            Phase::Ended(Ending::Error | Ending::Cancelled)
        ) {
            return Err(Refusal::NotRetryable.into());
        }
        if let Some(step) = switch.and_then(|_| self.lost_step()) {
            return Err(Refusal::StepMissing(step).into());
        }
        let generation = self.state.generation + 1;
        let seq = self.emit(
            At::default(),
            Body::ExecutionRetried(Retried { generation }),
        );
        self.because_of(seq);
        if let Some(switch) = switch {
            self.switch(switch);
        }
        let live = self.state.runs.iter();
        let live = live.filter(|(_, run)| run.boundary.is_none());
        let live: Vec<_> = live.map(|(id, _)| id.clone()).collect();
        for run in live {
            self.time_step(&run);
        }
        Ok(())
    }

    pub(super) fn signal(&mut self, name: Name, payload: Option<Raw>) -> Result<(), Undecided> {
        self.must_live()?;
        let body = Body::SignalReceived(Signal {
            name,
            payload,
            child: None,
        });
        let limit = self.net.limits.event_bytes_max;
        if too_large("a signal", body.data_bytes(), limit).is_some() {
            return Err(Refusal::TooLarge.into());
        }
        let seq = self.emit(At::default(), body);
        self.because_of(seq);
        Ok(())
    }

    /// Records an event of the server that changes nothing else.
    pub(super) fn note_down(&mut self, body: Body) -> Result<(), Undecided> {
        // A batch may end the execution that it reports on; its result is recorded anyway.
        if !matches!(body, Body::BatchCompleted(_) | Body::BatchFailed(_)) {
            self.must_live()?;
        }
        self.emit(At::default(), body);
        Ok(())
    }

    pub(super) fn patch_from_outside(&mut self, patch: &Raw) -> Result<(), Undecided> {
        self.must_live()?;
        let map = patch.read().unwrap_or_default();
        // A patch that is too large is dropped and refused; the execution does not fail.
        if self.patch_ctx(At::default(), &map).is_err() {
            return Err(Refusal::TooLarge.into());
        }
        Ok(())
    }
}
