//! The scope of templates that the server renders. Data is passed by reference and parsed on first use.

use std::collections::BTreeMap;
use std::sync::Arc;

use language::template::{Envelope, EventView, ExecutionView, LazyValue, Need, RenderError, Scope};
use model::event::{EventBody, EventStatus};
use model::id::{Name, Seq};
use model::manifest::outcome_from_event;
use model::outcome::{ErrorKind, TaskError};
use model::raw::RawJson;

use crate::decide::DecideError;
use crate::decide::decision_builder::DecisionBuilder;
use crate::state::{Boundary, BoundaryKind};

type StepEnvelopes = Arc<BTreeMap<Name, Envelope>>;

/// Parts of the scope that many templates of one turn share.
#[derive(Default)]
pub(super) struct ScopeCache {
    ctx: Option<(Seq, LazyValue)>,
    steps: Option<(Option<Seq>, StepEnvelopes)>,
    workload: Option<LazyValue>,
}

/// Why a template was not rendered: it failed, or data must be loaded first.
pub(super) enum EvalError {
    Undecided(DecideError),
    Failed(Box<TaskError>),
    /// A body is too large for the server to load.
    TooLarge(Box<TaskError>),
}

/// Maximum size of a body that the server loads for a decision. Workers read larger ones.
const LOADED_BODY_BYTES_MAX: u64 = 1024 * 1024;

fn is_too_large(need: &Need) -> bool {
    matches!(need, Need::Body(reference) if reference.meta.bytes > LOADED_BODY_BYTES_MAX)
}

impl DecisionBuilder<'_> {
    /// The data that every template of the execution sees.
    pub(super) fn scope(&mut self) -> Scope {
        let state = &self.state;
        let workload = self
            .scopes
            .workload
            .get_or_insert_with(|| LazyValue::from_raw(state.workload.clone()))
            .clone();
        let ctx = match &self.scopes.ctx {
            Some((seq, data)) if *seq == state.ctx_seq => data.clone(),
            _ => {
                let data = LazyValue::from_shared_map(state.ctx.clone());
                self.scopes.ctx = Some((state.ctx_seq, data.clone()));
                data
            }
        };
        let last_boundary = state.last_boundary.as_ref().map(|pointer| pointer.seq);
        let steps = match &self.scopes.steps {
            Some((cached_at, steps)) if *cached_at == last_boundary => steps.clone(),
            _ => {
                let latest = state
                    .steps
                    .iter()
                    .filter_map(|(name, step)| Some((name, step.latest.as_ref()?)));
                let steps: BTreeMap<_, _> = latest
                    .map(|(name, latest)| (name.clone(), Envelope::from(latest)))
                    .collect();
                let steps = Arc::new(steps);
                self.scopes.steps = Some((last_boundary, steps.clone()));
                steps
            }
        };
        let execution = ExecutionView {
            execution_id: Some(state.execution),
            path: Some(state.path.clone()),
            version: Some(state.version),
            parent_execution_id: state.parent.as_ref().map(|parent| parent.execution_id),
        };
        Scope {
            workload,
            ctx,
            steps,
            execution: Arc::new(execution),
            loaded: self.loaded.clone(),
            ..Scope::default()
        }
    }

    /// Renders a template with the data that this turn recorded. If other data is missing, returns `Undecided::Needs`.
    pub(super) fn render<T>(
        &mut self,
        scope: &mut Scope,
        step: &Name,
        render: impl Fn(&Scope) -> Result<T, RenderError>,
    ) -> Result<T, EvalError> {
        loop {
            scope.loaded = self.loaded.clone();
            match render(scope) {
                Ok(value) => return Ok(value),
                Err(RenderError::Needs(needs)) => {
                    if needs.iter().any(|need| matches!(need, Need::File(_))) {
                        let message = "cannot read `_file` here: the server renders this template, \
                                       and the file is on a worker; use it in a task";
                        let error = TaskError::permanent(ErrorKind::Transform, "TEMPLATE_ERROR", message.to_owned());
                        return Err(EvalError::Failed(Box::new(error.with_detail("step", step.as_str()))));
                    }
                    if let Some(Need::Body(reference)) = needs.iter().find(|need| is_too_large(need)) {
                        let (bytes, uri) = (reference.meta.bytes, &reference.uri);
                        let message = format!(
                            "a condition reads `{uri}` ({bytes} bytes, limit 1 MiB); \
                             extract the fields it needs with `spec.result.select`"
                        );
                        let error = TaskError::permanent(ErrorKind::Storage, "BODY_TOO_LARGE", message);
                        return Err(EvalError::TooLarge(Box::new(error)));
                    }
                    let needs = needs.into_iter();
                    let missing: Vec<Need> = needs.flat_map(|need| self.missing_needs(need)).collect();
                    if !missing.is_empty() {
                        return Err(EvalError::Undecided(DecideError::Needs(missing)));
                    }
                }
                Err(RenderError::Failed { code, message, span }) => {
                    let error = TaskError::permanent(ErrorKind::Transform, code, message)
                        .with_detail("step", step.as_str())
                        .with_detail("line", span.line)
                        .with_detail("column", span.column);
                    return Err(EvalError::Failed(Box::new(error)));
                }
            }
        }
    }

    /// Returns what must be loaded for a need; empty if this turn's own events contain it.
    fn missing_needs(&mut self, need: Need) -> Vec<Need> {
        if let Need::Body(reference) = &need
            && let Some(missing) = self.needs_of_manifest(reference)
        {
            return missing;
        }
        if self.load_own_event(&need) {
            Vec::new()
        } else {
            vec![need]
        }
    }

    /// Loads a need from this turn's own events. Returns false if they do not contain it.
    pub(super) fn load_own_event(&mut self, need: &Need) -> bool {
        let seq = match need {
            Need::Outcome(seq) => seq,
            Need::Loop(pointer) | Need::LoopStats(pointer) => &pointer.done,
            Need::Body(_) | Need::File(_) => return false,
        };
        let first_seq = self.events.first().map_or(Seq(0), |event| event.seq);
        let index = seq.0.checked_sub(first_seq.0).and_then(|n| usize::try_from(n).ok());
        let Some(event) = index.and_then(|index| self.events.get(index)) else {
            return false;
        };
        if let EventBody::LoopDone(done) = &event.body {
            if let Need::LoopStats(_) = need {
                let stats = done.stats;
                let loop_stats = &mut Arc::make_mut(&mut self.loaded).loop_stats;
                loop_stats.insert(*seq, stats);
                return true;
            }
            let Some(results) = &done.results else {
                return false;
            };
            let value = serde_json::json!({"results": results.to_value(), "stats": done.stats});
            let loops = &mut Arc::make_mut(&mut self.loaded).loops;
            loops.insert(*seq, LazyValue::new(value));
            return true;
        }
        let Some(outcome) = outcome_from_event(event) else {
            return false;
        };
        Arc::make_mut(&mut self.loaded).outcomes.insert(*seq, Arc::new(outcome));
        true
    }
}

/// The end of a step, as conditions and admission rules see it.
pub(super) fn event_view(boundary: &Boundary, error: Option<&TaskError>) -> EventView {
    let status = match boundary.end {
        BoundaryKind::Failed => EventStatus::Error,
        BoundaryKind::Done | BoundaryKind::LoopDone => EventStatus::Success,
    };
    let payload = error.map_or_else(LazyValue::default, |error| {
        LazyValue::from_raw(RawJson::from_serializable(&serde_json::json!({"error": error})))
    });
    EventView {
        kind: boundary.end.event_kind(),
        step: Some(boundary.step.clone()),
        status,
        payload,
        timestamp: boundary.timestamp,
    }
}
