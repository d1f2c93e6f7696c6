//! Addresses: which of an execution's results is meant.

use model::event::{Event, EventBody, RecordedResult};
use model::id::{ExecutionId, Name, Seq};
use model::manifest::is_pipeline_outcome;
pub use wire::api::ResultSelector;

/// Which results of an execution are meant; what is not said fits any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResultAddress {
    /// The step.
    pub step: Option<Name>,
    /// Where in the step.
    pub selector: ResultSelector,
    /// The entry of the task.
    pub visit: Option<u32>,
}

impl ResultAddress {
    /// A step's own result.
    pub fn for_step(step: Name) -> Self {
        Self {
            step: Some(step),
            ..Self::default()
        }
    }

    /// Whether it is the step itself that is meant, and no part of it.
    pub(crate) fn is_whole(&self) -> bool {
        self.selector == ResultSelector::default() && self.visit.is_none()
    }

    /// The task that is meant, if nothing but a task of a step is: any iteration, page and attempt fits.
    pub(crate) fn task_of_step(&self) -> Option<(&Name, &Name)> {
        let place = &self.selector;
        let is_part =
            place.iteration.is_some() || place.page.is_some() || place.attempt.is_some() || self.visit.is_some();
        let task = place.task.as_ref().filter(|_| !is_part)?;
        Some((self.step.as_ref()?, task))
    }

    /// Whether an event records a result that fits.
    pub(crate) fn matches(&self, event: &Event) -> bool {
        let (at, place) = (&event.location, &self.selector);
        let is_task = match event.body.recorded_result() {
            Some(RecordedResult::TaskDone(_) | RecordedResult::TaskFailed(_)) => true,
            Some(RecordedResult::Attempt(_)) => place.attempt.is_some(),
            Some(RecordedResult::Manifest(_)) => {
                let is_part = place.page.is_some() || place.attempt.is_some();
                at.task.is_some() && !is_part && self.visit.is_none()
            }
            None => false,
        };
        let page = at.page.unwrap_or(at.visit.into());
        is_task
            && matches_wanted(self.step.as_ref(), at.step.as_ref())
            && matches_wanted(place.task.as_ref(), at.task.as_ref())
            && matches_wanted(place.iteration.as_ref(), at.iteration.as_ref())
            && matches_wanted(place.run.as_ref(), Some(&at.run))
            && matches_wanted(place.attempt.as_ref(), Some(&at.attempt))
            && matches_wanted(place.page.as_ref(), Some(&page))
            && matches_wanted(self.visit.as_ref(), Some(&at.visit))
    }

    /// Whether a result that fits may be the one that is meant. Where no task is named, a manifest is so only if its task
    /// ended the pipeline.
    pub(crate) fn may_select(&self, event: &Event) -> bool {
        let is_manifest = matches!(event.body, EventBody::ManifestUpdated(_));
        self.selector.task.is_some() || !is_manifest || is_pipeline_outcome(event)
    }

    /// Reads `noetl://execution/<id>/step/<step>/task/<task>/run/<task_run_id>/attempt/<n>`; of the id, its numbers alone
    /// will do.
    pub(crate) fn parse(uri: &str) -> Option<(ExecutionId, Self)> {
        let execution = model::manifest::execution_of_uri(uri)?;
        let (_, rest) = uri.split_once("/step/")?;
        let (rest, attempt) = rest.rsplit_once("/attempt/")?;
        let (rest, run) = rest.rsplit_once("/run/")?;
        let (step, task) = rest.split_once("/task/")?;
        let numbers = run.rsplit(':').next()?;
        let numbers: Vec<&str> = numbers.split('.').collect();
        let (run, iteration, visit) = match numbers[..] {
            [run, visit] => (run, None, visit),
            [run, iteration, visit] => (run, Some(iteration.parse().ok()?), visit),
            _ => return None,
        };
        let place = ResultSelector {
            run: Some(run.parse().ok()?),
            task: Some(task.into()),
            iteration,
            page: None,
            attempt: Some(attempt.parse().ok()?),
        };
        let wanted = Self {
            step: Some(step.into()),
            selector: place,
            visit: Some(visit.parse().ok()?),
        };
        Some((execution, wanted))
    }
}

fn matches_wanted<T: PartialEq>(wanted: Option<&T>, found: Option<&T>) -> bool {
    wanted.is_none() || wanted == found
}

/// The result that fits best so far: of the step's latest run, the latest that ended well, else the latest.
#[derive(Debug, Default)]
pub(crate) struct BestMatch(Option<Candidate>);

#[derive(Debug)]
struct Candidate {
    seq: Seq,
    run: u32,
    is_ok: bool,
}

impl BestMatch {
    pub(crate) fn consider(&mut self, event: &Event) {
        let is_ok = matches!(
            event.body,
            EventBody::TaskDone(_) | EventBody::AttemptDone(_) | EventBody::ManifestUpdated(_)
        );
        let run = event.location.run;
        let stays = |best: &Candidate| best.run > run || (best.run == run && best.is_ok && !is_ok);
        if !self.0.as_ref().is_some_and(stays) {
            let seq = event.seq;
            self.0 = Some(Candidate { seq, run, is_ok });
        }
    }

    pub(crate) fn seq(&self) -> Option<Seq> {
        self.0.as_ref().map(|best| best.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_where_a_result_is() {
        let uri = "noetl://execution/42/step/fetch/task/page/run/2.7.3/attempt/1";
        let (execution, wanted) = ResultAddress::parse(uri).unwrap();
        assert_eq!((execution, wanted.visit), (ExecutionId(42), Some(3)));
        assert_eq!(wanted.selector.iteration, Some(7));
        assert_eq!(wanted.selector.run, Some(2));
        let whole = uri.replace("2.7.3", "task:fetch.page:run:2.7.3");
        assert_eq!(ResultAddress::parse(&whole), Some((execution, wanted)));
        let plain = "noetl://execution/42/step/fetch/task/page/run/2.3/attempt/1";
        assert_eq!(ResultAddress::parse(plain).unwrap().1.selector.iteration, None);
        assert_eq!(ResultAddress::parse("noetl://execution/42/step/fetch"), None);
    }
}
