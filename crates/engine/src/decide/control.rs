//! Control requests of users and parent executions.

use model::event::{ControlNote, EndStatus, EventBody, EventLocation, ExecutionRetried, SignalReceived, StopRequest};
use model::id::Name;
use model::raw::RawJson;
use model::size::size_error;

use crate::decide::decision_builder::DecisionBuilder;
use crate::decide::{DecideError, Refusal};
use crate::input::PlaybookSwitch;
use crate::state::Phase;

impl DecisionBuilder<'_> {
    fn check_live(&self) -> Result<(), Refusal> {
        if self.state.is_ended() {
            Err(Refusal::ExecutionEnded)
        } else {
            Ok(())
        }
    }

    pub(super) fn cancel(&mut self, request: StopRequest) -> Result<(), DecideError> {
        self.check_live()?;
        if self.state.stop.is_none() {
            let seq = self.emit(EventLocation::default(), EventBody::CancelRequested(request));
            self.set_cause(seq);
        }
        Ok(())
    }

    pub(super) fn pause(&mut self, reason: Option<String>) -> Result<(), DecideError> {
        self.check_live()?;
        if self.state.paused {
            return Err(Refusal::AlreadyPaused.into());
        }
        let seq = self.emit(
            EventLocation::default(),
            EventBody::PlaybookPaused(ControlNote { reason }),
        );
        self.set_cause(seq);
        Ok(())
    }

    pub(super) fn resume(&mut self) -> Result<(), DecideError> {
        self.check_live()?;
        if !self.state.paused {
            return Err(Refusal::NotPaused.into());
        }
        let seq = self.emit(
            EventLocation::default(),
            EventBody::PlaybookResumed(ControlNote { reason: None }),
        );
        self.set_cause(seq);
        Ok(())
    }

    pub(super) fn retry(&mut self, switch: Option<&PlaybookSwitch>) -> Result<(), DecideError> {
        let parent = self.state.parent.as_ref();
        let is_awaited = parent.is_some_and(|parent| parent.wait);
        if self.state.phase == Phase::Ended(EndStatus::Success) && is_awaited {
            // The parent retries because it saw a failure, but this execution has succeeded since.
            return self.resend_end_to_parent();
        }
        if !matches!(self.state.phase, Phase::Ended(EndStatus::Error | EndStatus::Cancelled)) {
            return Err(Refusal::NotRetryable.into());
        }
        if let Some(step) = switch.and_then(|_| self.missing_step()) {
            return Err(Refusal::StepMissing(step).into());
        }
        let generation = self.state.generation + 1;
        let seq = self.emit(
            EventLocation::default(),
            EventBody::ExecutionRetried(ExecutionRetried { generation }),
        );
        self.set_cause(seq);
        if let Some(switch) = switch {
            self.record_switch(switch);
        }
        let live = self.state.runs.iter();
        let live = live.filter(|(_, run)| run.boundary.is_none());
        let live: Vec<_> = live.map(|(id, _)| id.clone()).collect();
        for run in live {
            self.set_step_timer(&run);
        }
        Ok(())
    }

    pub(super) fn signal(&mut self, name: Name, payload: Option<RawJson>) -> Result<(), DecideError> {
        self.check_live()?;
        let body = EventBody::SignalReceived(SignalReceived {
            name,
            payload,
            child: None,
        });
        let limit = self.net.limits.event_bytes_max;
        if size_error("a signal", body.data_bytes(), limit).is_some() {
            return Err(Refusal::TooLarge.into());
        }
        let seq = self.emit(EventLocation::default(), body);
        self.set_cause(seq);
        Ok(())
    }

    /// Records an event of the server that changes nothing else.
    pub(super) fn record_server_event(&mut self, body: EventBody) -> Result<(), DecideError> {
        // A batch may end the execution that it reports on; its result is recorded anyway.
        if !matches!(body, EventBody::BatchCompleted(_) | EventBody::BatchFailed(_)) {
            self.check_live()?;
        }
        self.emit(EventLocation::default(), body);
        Ok(())
    }

    pub(super) fn apply_external_patch(&mut self, patch: &RawJson) -> Result<(), DecideError> {
        self.check_live()?;
        let map = patch.parse_as().unwrap_or_default();
        // A patch that is too large is dropped and refused; the execution does not fail.
        if self.patch_ctx(EventLocation::default(), &map).is_err() {
            return Err(Refusal::TooLarge.into());
        }
        Ok(())
    }
}
