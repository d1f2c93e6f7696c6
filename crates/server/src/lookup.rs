//! Looking up addresses: what `noetl://execution/…` leads to, whether it is a body, a small result in the log, or a list.

use model::event::{At, Event};
use model::id::{ExecutionId, Name, Seq};
use model::outcome::Outcome;
use model::raw::Raw;
use model::result_ref::{Found, ResultRef};
use serde_json::{Value, json};
use store::ResultRow;

use crate::error::Error;
use crate::{Shared, loading};

/// How the address of a result begins.
const SCHEME: &str = "noetl://execution/";

/// How many events are read at once when a result is looked for in the log.
const PAGE: usize = 5_000;

/// An address, taken apart.
#[derive(Debug, PartialEq, Eq)]
enum Address<'u> {
    /// The bodies of a run, or of one of its steps.
    List { step: Option<&'u str> },
    /// The result of a step's task: by the place of its event, by the task's label, or `latest`.
    Result { step: &'u str, id: &'u str },
    /// One attempt of a task.
    Attempt(Box<At>),
    /// Something that only its reference knows.
    Other,
}

/// What an address leads to; none if it leads nowhere, or is no address.
pub(crate) async fn look_up(shared: &Shared, uri: &str) -> Result<Option<Found>, Error> {
    let Some((execution, address)) = take_apart(uri) else {
        return Ok(None);
    };
    let rows = shared.store.results(execution).await?;
    if let Address::List { step } = address {
        if shared.store.execution(execution).await?.is_none() {
            return Ok(None);
        }
        let rows = rows
            .iter()
            .filter(|row| step.is_none_or(|step| row.run.step.as_str() == step));
        let list: Vec<Value> = rows.map(shown).collect();
        return Ok(Some(Found::Value(Raw::of(&list))));
    }
    let references = rows.iter().rev();
    let mut references = references.filter_map(|row| row.result_ref.read::<ResultRef>().ok());
    if let Some(found) = references.find(|found| found.uri == uri) {
        return Ok(Some(Found::Body(Box::new(found))));
    }
    let outcome = match address {
        Address::List { .. } | Address::Other => None,
        Address::Result { step, id } => result(shared, execution, step, id).await?,
        Address::Attempt(at) => {
            let is_it = |event: &Event| {
                At {
                    page: None,
                    ..event.at.clone()
                } == *at
            };
            last(shared, execution, is_it).await?
        }
    };
    Ok(match outcome {
        Some(Outcome::Ok(success)) => Some(match success.reference {
            Some(reference) => Found::Body(reference),
            None => Found::Value(Raw::of(&success.result)),
        }),
        Some(Outcome::Error(_)) | None => None,
    })
}

fn take_apart(uri: &str) -> Option<(ExecutionId, Address<'_>)> {
    let mut parts = uri.strip_prefix(SCHEME)?.trim_end_matches('/').split('/');
    let execution: ExecutionId = parts.next()?.parse().ok()?;
    let parts: Vec<&str> = parts.collect();
    let address = match parts[..] {
        [] => Address::List { step: None },
        ["step", step] => Address::List { step: Some(step) },
        ["result", step] => Address::Result { step, id: "latest" },
        ["result", step, id] => Address::Result { step, id },
        ["step", step, "task", task, "run", run, "attempt", attempt] => {
            attempt_at((step, task), run, attempt).map_or(Address::Other, Address::Attempt)
        }
        _ => Address::Other,
    };
    Some((execution, address))
}

/// `run` is the step's run, the iteration if there is one, and the visit.
fn attempt_at((step, task): (&str, &str), run: &str, attempt: &str) -> Option<Box<At>> {
    let numbers: Option<Vec<u64>> = run.split('.').map(|part| part.parse().ok()).collect();
    let (run, iteration, visit) = match numbers?[..] {
        [run, visit] => (run, None, visit),
        [run, iteration, visit] => (run, Some(iteration), visit),
        _ => return None,
    };
    Some(Box::new(At {
        step: Some(Name::from(step)),
        run: u32::try_from(run).ok()?,
        iteration,
        task: Some(Name::from(task)),
        visit: u32::try_from(visit).ok()?,
        attempt: attempt.parse().ok()?,
        page: None,
    }))
}

async fn result(
    shared: &Shared,
    execution: ExecutionId,
    step: &str,
    id: &str,
) -> Result<Option<Outcome>, Error> {
    let is_of_step = |event: &Event| {
        event
            .at
            .step
            .as_ref()
            .is_some_and(|name| name.as_str() == step)
    };
    if let Ok(seq) = id.parse::<u64>() {
        let events = loading::events_at(shared, execution, &[Seq(seq)]).await?;
        let event = events.iter().find(|event| is_of_step(event));
        return Ok(event.and_then(loading::outcome_of));
    }
    let is_it = |event: &Event| {
        let label = event.at.task.as_ref().map_or("", Name::as_str);
        is_of_step(event) && (id == "latest" || label == id)
    };
    last(shared, execution, is_it).await
}

/// The last outcome that the log records of this.
async fn last(
    shared: &Shared,
    execution: ExecutionId,
    is_it: impl Fn(&Event) -> bool,
) -> Result<Option<Outcome>, Error> {
    let mut found = None;
    let mut after = Seq(0);
    loop {
        let page = shared.store.events(execution, after, PAGE).await?;
        let Some(end) = page.last() else {
            return Ok(found);
        };
        after = end.seq;
        let outcomes = page.iter().filter(|event| is_it(event));
        found = outcomes.filter_map(loading::outcome_of).last().or(found);
    }
}

/// A body as a list shows it.
fn shown(row: &ResultRow) -> Value {
    let reference = row.result_ref.value();
    json!({
        "uri": reference["ref"],
        "step": row.run.step,
        "run": row.run.run,
        "task": row.task,
        "iteration": row.iteration,
        "attempt": row.attempt,
        "size_bytes": reference["meta"]["bytes"],
        "sha256": reference["meta"]["sha256"],
        "store": reference["store"],
        "scope": reference["scope"],
        "expires_at": reference["expires_at"],
        "created_at": row.created_at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        fn apart(uri: &str) -> Option<Address<'_>> {
            take_apart(uri).map(|(_, found)| found)
        }
        assert_eq!(
            apart("noetl://execution/7"),
            Some(Address::List { step: None })
        );
        assert_eq!(
            apart("noetl://execution/7/step/a"),
            Some(Address::List { step: Some("a") })
        );
        let result = Address::Result {
            step: "a",
            id: "12",
        };
        assert_eq!(apart("noetl://execution/7/result/a/12"), Some(result));
        assert_eq!(apart("noetl://execution/x/result/a"), None);
        let Some(Address::Attempt(at)) =
            apart("noetl://execution/7/step/a/task/t/run/2.5.1/attempt/3")
        else {
            panic!("it names an attempt")
        };
        assert_eq!(
            (at.run, at.iteration, at.visit, at.attempt),
            (2, Some(5), 1, 3)
        );
        assert_eq!(apart("noetl://execution/7/ctx/3/key"), Some(Address::Other));
    }
}
