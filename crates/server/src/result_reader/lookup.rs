//! Resolves addresses: `noetl://execution/…` names a body, a small result in the log, or a list.

use model::event::EventBody;
use model::id::{ExecutionId, Name, Seq};
use model::manifest::execution_of_uri;
use model::result_ref::ResultRef;
use serde_json::{Value, json};
use store::ResultRow;

use crate::error::Error;
use crate::loading;
use crate::result_reader::parts;
use crate::result_reader::{LocatedResult, ResultAddress, ResultReader, ResultSelector};

/// A parsed address.
#[derive(Debug, PartialEq, Eq)]
enum ParsedAddress<'u> {
    /// The bodies of a run, or of one of its steps.
    List { step: Option<&'u str> },
    /// The result of a step: its own, or that of a task by its label or by the location of its event.
    Result { step: &'u str, id: Option<&'u str> },
    /// One attempt of a task.
    Attempt(Box<ResultAddress>),
    /// The manifest of a loop's results.
    LoopManifest { step: &'u str, run: u32 },
    /// An object that is only found by its reference.
    Other,
}

impl ResultReader {
    /// Returns the result at an address; `None` if there is none or the text is not an address.
    pub async fn resolve(&self, uri: &str) -> Result<Option<LocatedResult>, Error> {
        let Some((execution, address)) = parse_address(uri) else {
            return Ok(None);
        };
        match address {
            ParsedAddress::List { step } => self.list_bodies(execution, step).await,
            ParsedAddress::Result { step, id } => self.find_result(execution, step, id).await,
            ParsedAddress::Attempt(attempt) => match self.find_indexed(execution, uri).await? {
                Some(located) => Ok(Some(located)),
                None => self.find_best_match(execution, &attempt).await,
            },
            ParsedAddress::LoopManifest { step, run } => match self.find_indexed(execution, uri).await? {
                Some(located) => Ok(Some(located)),
                None => self.find_inline_loop(execution, step, run).await,
            },
            ParsedAddress::Other => self.find_indexed(execution, uri).await,
        }
    }

    /// Looks up this exact address in the index.
    async fn find_indexed(&self, execution: ExecutionId, uri: &str) -> Result<Option<LocatedResult>, Error> {
        let rows = self.store.results(execution).await?;
        let references = rows.iter().rev();
        let mut references = references.filter_map(|row| row.result_ref.parse_as::<ResultRef>().ok());
        let indexed = references.find(|reference| reference.uri == uri);
        Ok(indexed.map(LocatedResult::from_reference))
    }

    /// The results of a loop whose `loop.done` event contains them because they are few.
    async fn find_inline_loop(
        &self,
        execution: ExecutionId,
        step: &str,
        run: u32,
    ) -> Result<Option<LocatedResult>, Error> {
        let mut results = None;
        parts::for_each_outline_event(&*self.store, execution, |event| {
            if let EventBody::LoopDone(done) = &event.body
                && event.location.step.as_ref().is_some_and(|name| name.as_str() == step)
                && event.location.run == run
            {
                results = done
                    .results
                    .as_ref()
                    .map(|results| LocatedResult::Value(results.to_value()));
            }
        })
        .await?;
        Ok(results)
    }

    /// Lists the bodies of a run, or of one of its steps.
    async fn list_bodies(&self, execution: ExecutionId, step: Option<&str>) -> Result<Option<LocatedResult>, Error> {
        if self.store.execution(execution).await?.is_none() {
            return Ok(None);
        }
        let rows = self.store.results(execution).await?;
        let is_selected = |row: &&ResultRow| step.is_none_or(|step| row.run.step.as_str() == step);
        let list: Vec<Value> = rows.iter().filter(is_selected).map(to_json).collect();
        Ok(Some(LocatedResult::Value(Value::Array(list))))
    }

    async fn find_result(
        &self,
        execution: ExecutionId,
        step: &str,
        id: Option<&str>,
    ) -> Result<Option<LocatedResult>, Error> {
        let seq = id.and_then(|id| id.parse::<u64>().ok());
        if let Some(seq) = seq {
            let events = loading::load_events(&*self.store, execution, &[Seq(seq)]).await?;
            let is_of_step = |name: &Name| name.as_str() == step;
            let event = events.first();
            let event = event.filter(|event| event.location.step.as_ref().is_some_and(is_of_step));
            return Ok(event.and_then(LocatedResult::from_event));
        }
        let label = id.filter(|id| *id != "latest").map(Name::from);
        let address = ResultAddress {
            selector: ResultSelector {
                task: label,
                ..ResultSelector::default()
            },
            ..ResultAddress::for_step(Name::from(step))
        };
        self.find(execution, &address).await
    }
}

fn parse_address(uri: &str) -> Option<(ExecutionId, ParsedAddress<'_>)> {
    let execution = execution_of_uri(uri)?;
    let mut parts = uri.trim_end_matches('/').split('/');
    // The first parts are `noetl:`, an empty one, `execution`, and the ID.
    let parts: Vec<&str> = parts.by_ref().skip(4).collect();
    let address = match parts[..] {
        [] => ParsedAddress::List { step: None },
        ["step", step] => ParsedAddress::List { step: Some(step) },
        ["result", step] => ParsedAddress::Result { step, id: None },
        ["result", step, id] => ParsedAddress::Result { step, id: Some(id) },
        ["step", step, "run", run, "manifest"] => match run.parse() {
            Ok(run) => ParsedAddress::LoopManifest { step, run },
            Err(_) => ParsedAddress::Other,
        },
        _ => match ResultAddress::parse(uri) {
            Some((_, attempt)) => ParsedAddress::Attempt(Box::new(attempt)),
            None => ParsedAddress::Other,
        },
    };
    Some((execution, address))
}

/// The list entry of a body.
fn to_json(row: &ResultRow) -> Value {
    let reference = row.result_ref.to_value();
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
        fn parse_test_address(uri: &str) -> Option<ParsedAddress<'_>> {
            parse_address(uri).map(|(_, address)| address)
        }
        let list = ParsedAddress::List { step: None };
        assert_eq!(parse_test_address("noetl://execution/7"), Some(list));
        let list = ParsedAddress::List { step: Some("a") };
        assert_eq!(parse_test_address("noetl://execution/7/step/a"), Some(list));
        let result = ParsedAddress::Result {
            step: "a",
            id: Some("12"),
        };
        assert_eq!(parse_test_address("noetl://execution/7/result/a/12"), Some(result));
        assert_eq!(parse_test_address("noetl://execution/x/result/a"), None);
        let attempt = parse_test_address("noetl://execution/7/step/a/task/t/run/2.5.1/attempt/3");
        assert!(matches!(attempt, Some(ParsedAddress::Attempt(_))), "{attempt:?}");
        assert_eq!(
            parse_test_address("noetl://execution/7/ctx/3/key"),
            Some(ParsedAddress::Other)
        );
        let manifest = ParsedAddress::LoopManifest { step: "a", run: 2 };
        let uri = "noetl://execution/7/step/a/run/2/manifest";
        assert_eq!(parse_test_address(uri), Some(manifest));
    }
}
