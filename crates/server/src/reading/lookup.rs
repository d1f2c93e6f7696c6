//! Looking up addresses: what `noetl://execution/…` leads to, whether it is a body, a small result in the log, or a list.

use model::event::Body;
use model::id::{ExecutionId, Name, Seq};
use model::manifest::execution_of;
use model::result_ref::ResultRef;
use serde_json::{Value, json};
use store::ResultRow;

use crate::error::Error;
use crate::loading;
use crate::reading::parts;
use crate::reading::{Found, Reader, ResultAddress, ResultPlace};

/// An address, taken apart.
#[derive(Debug, PartialEq, Eq)]
enum Address<'u> {
    /// The bodies of a run, or of one of its steps.
    List { step: Option<&'u str> },
    /// The result of a step: its own, or that of a task by its label or by the place of its event.
    Result { step: &'u str, id: Option<&'u str> },
    /// One attempt of a task.
    Attempt(Box<ResultAddress>),
    /// The manifest of a loop's results.
    LoopManifest { step: &'u str, run: u32 },
    /// Something that only its reference knows.
    Other,
}

impl Reader {
    /// What an address leads to; none if it leads nowhere, or is no address.
    pub async fn resolve(&self, uri: &str) -> Result<Option<Found>, Error> {
        let Some((execution, address)) = take_apart(uri) else {
            return Ok(None);
        };
        match address {
            Address::List { step } => self.bodies_of(execution, step).await,
            Address::Result { step, id } => self.result(execution, step, id).await,
            Address::Attempt(wanted) => match self.outside(execution, uri).await? {
                Some(found) => Ok(Some(found)),
                None => self.search(execution, &wanted).await,
            },
            Address::LoopManifest { step, run } => match self.outside(execution, uri).await? {
                Some(found) => Ok(Some(found)),
                None => self.inline_loop(execution, step, run).await,
            },
            Address::Other => self.outside(execution, uri).await,
        }
    }

    /// What the index knows under this very address.
    async fn outside(&self, execution: ExecutionId, uri: &str) -> Result<Option<Found>, Error> {
        let rows = self.store.results(execution).await?;
        let references = rows.iter().rev();
        let mut references = references.filter_map(|row| row.result_ref.read::<ResultRef>().ok());
        let found = references.find(|reference| reference.uri == uri);
        Ok(found.map(Found::behind))
    }

    /// The results of a loop that are so few that its `loop.done` event holds them.
    async fn inline_loop(
        &self,
        execution: ExecutionId,
        step: &str,
        run: u32,
    ) -> Result<Option<Found>, Error> {
        let mut results = None;
        parts::each_of_outline(&*self.store, execution, |event| {
            if let Body::LoopDone(done) = &event.body
                && event
                    .at
                    .step
                    .as_ref()
                    .is_some_and(|name| name.as_str() == step)
                && event.at.run == run
            {
                results = done
                    .results
                    .as_ref()
                    .map(|results| Found::Value(results.value()));
            }
        })
        .await?;
        Ok(results)
    }

    /// The bodies of a run, or of one of its steps, as a list.
    async fn bodies_of(
        &self,
        execution: ExecutionId,
        step: Option<&str>,
    ) -> Result<Option<Found>, Error> {
        if self.store.execution(execution).await?.is_none() {
            return Ok(None);
        }
        let rows = self.store.results(execution).await?;
        let is_meant = |row: &&ResultRow| step.is_none_or(|step| row.run.step.as_str() == step);
        let list: Vec<Value> = rows.iter().filter(is_meant).map(shown).collect();
        Ok(Some(Found::Value(Value::Array(list))))
    }

    async fn result(
        &self,
        execution: ExecutionId,
        step: &str,
        id: Option<&str>,
    ) -> Result<Option<Found>, Error> {
        let seq = id.and_then(|id| id.parse::<u64>().ok());
        if let Some(seq) = seq {
            let events = loading::events_at(&*self.store, execution, &[Seq(seq)]).await?;
            let is_of_step = |name: &Name| name.as_str() == step;
            let event = events.first();
            let event = event.filter(|event| event.at.step.as_ref().is_some_and(is_of_step));
            return Ok(event.and_then(Found::in_event));
        }
        let label = id.filter(|id| *id != "latest").map(Name::from);
        let wanted = ResultAddress {
            place: ResultPlace {
                task: label,
                ..ResultPlace::default()
            },
            ..ResultAddress::of_step(Name::from(step))
        };
        self.find(execution, &wanted).await
    }
}

fn take_apart(uri: &str) -> Option<(ExecutionId, Address<'_>)> {
    let execution = execution_of(uri)?;
    let mut parts = uri.trim_end_matches('/').split('/');
    // `noetl:`, nothing, `execution`, and its id.
    let parts: Vec<&str> = parts.by_ref().skip(4).collect();
    let address = match parts[..] {
        [] => Address::List { step: None },
        ["step", step] => Address::List { step: Some(step) },
        ["result", step] => Address::Result { step, id: None },
        ["result", step, id] => Address::Result { step, id: Some(id) },
        ["step", step, "run", run, "manifest"] => match run.parse() {
            Ok(run) => Address::LoopManifest { step, run },
            Err(_) => Address::Other,
        },
        _ => match ResultAddress::parse(uri) {
            Some((_, wanted)) => Address::Attempt(Box::new(wanted)),
            None => Address::Other,
        },
    };
    Some((execution, address))
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
        "page": row.page,
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
        let list = Address::List { step: None };
        assert_eq!(apart("noetl://execution/7"), Some(list));
        let list = Address::List { step: Some("a") };
        assert_eq!(apart("noetl://execution/7/step/a"), Some(list));
        let result = Address::Result {
            step: "a",
            id: Some("12"),
        };
        assert_eq!(apart("noetl://execution/7/result/a/12"), Some(result));
        assert_eq!(apart("noetl://execution/x/result/a"), None);
        let attempt = apart("noetl://execution/7/step/a/task/t/run/2.5.1/attempt/3");
        assert!(matches!(attempt, Some(Address::Attempt(_))), "{attempt:?}");
        assert_eq!(apart("noetl://execution/7/ctx/3/key"), Some(Address::Other));
        let manifest = Address::LoopManifest { step: "a", run: 2 };
        let uri = "noetl://execution/7/step/a/run/2/manifest";
        assert_eq!(apart(uri), Some(manifest));
    }
}
