//! Runs the iterations of a loop, sequentially or several at once.
//!
//! Enters: the indices that a command covers. Leaves: the events of each iteration; reports are delayed briefly, so
//! that one covers many iterations. A suspended iteration still counts toward the concurrency limit.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use model::command::ReportEnd;
use model::event::{At, Body, Failed, IterationDone, Nothing};
use model::id::Name;
use model::outcome::{ErrorKind, TaskError};
use model::playbook::{FailureMode, Step};
use model::template::{Data, Iter, Scope};
use serde_json::{Map, Value};
use wire::Resume;

use crate::elements::{List, Window};
use crate::hand::{Hand, Trouble, is_parallel};
use crate::hold::Hold;
use crate::playbooks::StepPlan;
use crate::run::{Ended, Pipeline};

/// After this many iterations, other tasks on the same thread get a turn.
const YIELD_AFTER: u32 = 32;

/// Iterations of one loop.
pub(crate) struct Range<'h> {
    hand: &'h Hand,
    found: (&'h Step, &'h StepPlan),
    at: At,
    iterator: Name,
    elements: Arc<List>,
    window: tokio::sync::Mutex<Window>,
    scope: Scope,
    parent: Option<Data>,
}

/// Indices to run, and the resume points of iterations that have started before.
pub(crate) struct Indices {
    left: VecDeque<u64>,
    resumes: HashMap<u64, Resume>,
}

/// End of one iteration.
struct Iterated {
    ended: Ended,
    /// Whether a side effect of the iteration is not durable yet.
    owes: bool,
    /// `ctx` at the end of the iteration.
    ctx: Data,
}

impl Indices {
    /// Creates the list of indices in `from..to` without the finished ones in `over`.
    pub(crate) fn new(from: u64, to: u64, over: &[u64], resume: Vec<Resume>) -> Self {
        let over: HashSet<u64> = over.iter().copied().collect();
        let resumes = resume.into_iter();
        Self {
            left: (from..to).filter(|index| !over.contains(index)).collect(),
            resumes: resumes
                .filter_map(|resume| Some((resume.iteration?, resume)))
                .collect(),
        }
    }

    fn next(&mut self) -> Option<(u64, Option<Resume>)> {
        let index = self.left.pop_front()?;
        Some((index, self.resumes.remove(&index)))
    }

    /// Whether the command is finished or must be released because indices are left.
    fn end(&self) -> ReportEnd {
        if self.left.is_empty() {
            ReportEnd::Finished
        } else {
            ReportEnd::Released
        }
    }
}

impl<'h> Range<'h> {
    /// Loads the elements of the command's loop.
    pub(crate) async fn open(hand: &'h Hand) -> Result<Self, Trouble> {
        let missing = |what: &str| -> Trouble {
            let message = format!("step `{}` {what}", hand.command.run.step);
            TaskError::new(ErrorKind::Unknown, "COMMAND_INVALID", message).into()
        };
        let found = hand
            .step()
            .ok_or_else(|| missing("is not in the playbook"))?;
        let loop_ = found.0.loop_.as_ref();
        let loop_ = loop_.ok_or_else(|| missing("has no loop"))?;
        let started = hand.command.loop_started;
        let started = started.ok_or_else(|| missing("has not started its loop"))?;
        Ok(Self {
            hand,
            found,
            at: hand.at(),
            iterator: loop_.iterator.clone(),
            elements: hand.shared.elements.get(hand, started).await?,
            window: tokio::sync::Mutex::default(),
            scope: hand.scope(),
            parent: hand.parent_iter(),
        })
    }

    /// Runs the iterations, up to `width` at once if they have side effects and the loop is parallel.
    pub(crate) async fn run(self, indices: Indices, width: u32) -> ReportEnd {
        if is_parallel(self.found.0) && width > 1 && !self.found.1.is_pure {
            self.side_by_side(indices, width as usize).await
        } else {
            self.in_turn(indices, width).await
        }
    }

    /// Runs one iteration after another. Concurrency does not make pure iterations faster.
    async fn in_turn(mut self, mut indices: Indices, width: u32) -> ReportEnd {
        let is_parallel = is_parallel(self.found.0);
        let mut hold = Hold::new(self.hand.lease.clone());
        let mut permits = width.max(1);
        let mut turns = 0;
        while let Some((index, resume)) = indices.next() {
            if !self.hand.lease.is_open() {
                return ReportEnd::Released;
            }
            let iterated = self.iterate(index, resume).await;
            match iterated.ended {
                Ended::Interrupted => return ReportEnd::Released,
                Ended::Suspended => permits -= 1,
                Ended::Failed(_) if self.fails_fast() => return indices.end(),
                Ended::Done | Ended::Failed(_) => {}
            }
            if permits == 0 || indices.left.is_empty() {
                return indices.end();
            }
            if !is_parallel {
                self.scope.ctx = iterated.ctx;
            }
            if is_parallel || !iterated.owes {
                hold.add().await;
            } else if self.hand.lease.flush().await.is_err() {
                return ReportEnd::Released;
            }
            turns += 1;
            if turns % YIELD_AFTER == 0 {
                tokio::task::yield_now().await;
            }
        }
        ReportEnd::Finished
    }

    /// Runs several iterations at once.
    async fn side_by_side(self, mut indices: Indices, width: usize) -> ReportEnd {
        let lease = &self.hand.lease;
        let mut hold = Hold::new(lease.clone());
        let mut running = FuturesUnordered::new();
        let mut permits = width;
        let mut has_failed = false;
        let mut was_interrupted = false;
        loop {
            let may_begin = |running: usize| running < permits && !has_failed && lease.is_open();
            while may_begin(running.len()) && !hold.is_full() {
                let Some((index, resume)) = indices.next() else {
                    break;
                };
                running.push(self.iterate(index, resume));
            }
            let has_more = !indices.left.is_empty() && permits > 0 && !has_failed;
            if running.is_empty() && !(has_more && lease.is_open()) {
                // The final report of the command contains the last events.
                break;
            }
            tokio::select! {
                Some(iterated) = running.next() => {
                    match iterated.ended {
                        Ended::Interrupted => was_interrupted = true,
                        Ended::Suspended => permits -= 1,
                        Ended::Failed(_) => has_failed |= self.fails_fast(),
                        Ended::Done => {}
                    }
                    hold.note();
                }
                () = hold.due() => hold.launch(),
            }
        }
        if was_interrupted {
            ReportEnd::Released
        } else {
            indices.end()
        }
    }

    /// Runs one iteration that resumes.
    pub(crate) async fn run_one(self, index: u64, resume: Option<Resume>) -> ReportEnd {
        match self.iterate(index, resume).await.ended {
            Ended::Interrupted => ReportEnd::Released,
            Ended::Done | Ended::Failed(_) | Ended::Suspended => ReportEnd::Finished,
        }
    }

    async fn iterate(&self, index: u64, resume: Option<Resume>) -> Iterated {
        let begun = self.hand.now();
        let at = self.at.clone().iteration(Some(index));
        let (scope, mut restored) = match self.scope(index).await {
            Ok(scope) => (scope, Ok(())),
            Err(trouble) => (self.scope.clone(), Err(trouble)),
        };
        let mut pipeline = Pipeline::new(self.hand, self.found, at.clone(), scope);
        let mut has_begun = false;
        if let Some(resume) = resume {
            has_begun = resume.started;
            if restored.is_ok() {
                restored = pipeline.restore(resume.continuation).await;
            }
        }
        if !has_begun {
            let started = Body::IterationStarted(Nothing {});
            pipeline.events.push(self.hand.event(at.clone(), started));
        }
        let ended = match restored {
            Ok(()) => pipeline.run().await,
            Err(Trouble::Interrupted) => Ended::Interrupted,
            Err(Trouble::Failed(error)) => Ended::Failed(error),
        };
        let (set_ctx, ended) = match (pipeline.set_ctx(), ended) {
            (Ok(set_ctx), ended) => (set_ctx, ended),
            (Err(error), Ended::Done) => (None, Ended::Failed(error)),
            (Err(_), ended) => (None, ended),
        };
        let body = match &ended {
            Ended::Done => Some(Body::IterationDone(IterationDone { set_ctx })),
            Ended::Failed(error) => Some(Body::IterationFailed(Box::new(Failed {
                error: (**error).clone(),
                set_ctx,
            }))),
            Ended::Suspended | Ended::Interrupted => None,
        };
        if let Some(body) = body {
            pipeline.events.push(self.hand.ending(at, body, begun));
        }
        self.hand.lease.push(&mut pipeline.events);
        Iterated {
            ended,
            owes: pipeline.owes,
            ctx: pipeline.scope.ctx,
        }
    }

    /// Returns the template scope of one iteration.
    async fn scope(&self, index: u64) -> Result<Scope, Trouble> {
        let element = self
            .elements
            .element(self.hand, &self.window, index)
            .await?;
        let values = Map::from_iter([(self.iterator.to_string(), element)]);
        let mut scope = self.scope.clone();
        scope.loaded = self.hand.loaded();
        scope.iter = Some(Iter {
            values: Data::new(Value::Object(values)),
            index: Some(index),
            length: self.elements.len(),
            parent: self.parent.clone(),
        });
        Ok(scope)
    }

    fn fails_fast(&self) -> bool {
        self.found.0.failure == FailureMode::FailFast
    }
}
