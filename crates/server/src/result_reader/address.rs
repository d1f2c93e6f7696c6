//! Addresses of results: which results of an execution they select.

use model::event::{Event, EventBody, RecordedResult};
use model::id::{ExecutionId, Name, Seq};
use model::manifest::is_pipeline_outcome;
pub use wire::api::ResultSelector;

/// Selects results of an execution; a field without a value matches any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResultAddress {
    /// The step.
    pub step: Option<Name>,
    /// The part of the step.
    pub selector: ResultSelector,
    /// The visit of the task.
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

    /// Whether it selects the step itself, not a part of it.
    pub(crate) fn is_whole(&self) -> bool {
        self.selector == ResultSelector::default() && self.visit.is_none()
    }

    /// The step and the task, if it selects a task regardless of iteration, page and attempt.
    pub(crate) fn task_of_step(&self) -> Option<(&Name, &Name)> {
        let selector = &self.selector;
        let is_part = selector.iteration.is_some()
            || selector.page.is_some()
            || selector.attempt.is_some()
            || self.visit.is_some();
        let task = selector.task.as_ref().filter(|_| !is_part)?;
        Some((self.step.as_ref()?, task))
    }

    /// Whether an event records a matching result.
    pub(crate) fn matches(&self, event: &Event) -> bool {
        let (location, selector) = (&event.location, &self.selector);
        let is_task = match event.body.recorded_result() {
            Some(RecordedResult::TaskDone(_) | RecordedResult::TaskFailed(_)) => true,
            Some(RecordedResult::Attempt(_)) => selector.attempt.is_some(),
            Some(RecordedResult::Manifest(_)) => {
                let is_part = selector.page.is_some() || selector.attempt.is_some();
                location.task.is_some() && !is_part && self.visit.is_none()
            }
            None => false,
        };
        let page = location.page.unwrap_or(location.visit.into());
        is_task
            && matches_filter(self.step.as_ref(), location.step.as_ref())
            && matches_filter(selector.task.as_ref(), location.task.as_ref())
            && matches_filter(selector.iteration.as_ref(), location.iteration.as_ref())
            && matches_filter(selector.run.as_ref(), Some(&location.run))
            && matches_filter(selector.attempt.as_ref(), Some(&location.attempt))
            && matches_filter(selector.page.as_ref(), Some(&page))
            && matches_filter(self.visit.as_ref(), Some(&location.visit))
    }

    /// Whether a matching result may be selected. Without a task, a manifest is only selected if its task ended the
    /// pipeline.
    pub(crate) fn may_select(&self, event: &Event) -> bool {
        let is_manifest = matches!(event.body, EventBody::ManifestUpdated(_));
        self.selector.task.is_some() || !is_manifest || is_pipeline_outcome(event)
    }

    /// Parses `noetl://execution/<id>/step/<step>/task/<task>/run/<task_run_id>/attempt/<n>`; the numbers of
    /// `task_run_id` are enough.
    pub(crate) fn parse(uri: &str) -> Option<(ExecutionId, Self)> {
        let execution = model::manifest::execution_of_uri(uri)?;
        let (_, path) = uri.split_once("/step/")?;
        let (path, attempt) = path.rsplit_once("/attempt/")?;
        let (path, run) = path.rsplit_once("/run/")?;
        let (step, task) = path.split_once("/task/")?;
        let numbers = run.rsplit(':').next()?;
        let numbers: Vec<&str> = numbers.split('.').collect();
        let (run, iteration, visit) = match numbers[..] {
            [run, visit] => (run, None, visit),
            [run, iteration, visit] => (run, Some(iteration.parse().ok()?), visit),
            _ => return None,
        };
        let selector = ResultSelector {
            run: Some(run.parse().ok()?),
            task: Some(task.into()),
            iteration,
            page: None,
            attempt: Some(attempt.parse().ok()?),
        };
        let address = Self {
            step: Some(step.into()),
            selector,
            visit: Some(visit.parse().ok()?),
        };
        Some((execution, address))
    }
}

fn matches_filter<T: PartialEq>(filter: Option<&T>, actual: Option<&T>) -> bool {
    filter.is_none() || filter == actual
}

/// The best match so far: in the step's latest run, the latest success, otherwise the latest failure.
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
        let is_better = |best: &Candidate| best.run > run || (best.run == run && best.is_ok && !is_ok);
        if !self.0.as_ref().is_some_and(is_better) {
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
    fn an_address_locates_a_result() {
        let uri = "noetl://execution/42/step/fetch/task/page/run/2.7.3/attempt/1";
        let (execution, address) = ResultAddress::parse(uri).unwrap();
        assert_eq!((execution, address.visit), (ExecutionId(42), Some(3)));
        assert_eq!(address.selector.iteration, Some(7));
        assert_eq!(address.selector.run, Some(2));
        let whole = uri.replace("2.7.3", "task:fetch.page:run:2.7.3");
        assert_eq!(ResultAddress::parse(&whole), Some((execution, address)));
        let plain = "noetl://execution/42/step/fetch/task/page/run/2.3/attempt/1";
        assert_eq!(ResultAddress::parse(plain).unwrap().1.selector.iteration, None);
        assert_eq!(ResultAddress::parse("noetl://execution/42/step/fetch"), None);
    }
}
