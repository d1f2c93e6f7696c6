//! What waits for a person or another system, in all runs.
//!
//! Input: rows of the projection `pending_wait`; no run is loaded. Output: entries with their form and the choices of a
//! person.

use std::fmt::Write as _;

use axum::extract::State;
use model::id::{ExecutionId, Name, Seq};
use model::time::Time;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use store::{PendingSignalWait, WaitEntry, WaitFilter, WaitPosition};
use utoipa::IntoParams;
use wire::api::{InboxChoice, InboxCount, InboxEntry, InboxKind, InboxPage};

use crate::api::access::{Authorized, View};
use crate::api::error::{ApiError, ErrorResponses};
use crate::api::executions::page_limit;
use crate::api::extract::QueryParams;
use crate::api::state::ApiState;
use crate::api::{ApiResult, Json};

/// Maximum number of waits that are counted.
const COUNTED_WAITS_MAX: usize = 1_000;

/// The order of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum InboxOrder {
    /// The wait that began last comes first.
    #[default]
    Newest,
    /// The wait that began first comes first.
    Oldest,
}

/// Filters of waits, as query parameters.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct InboxParams {
    /// Filter by run.
    #[param(value_type = Option<String>)]
    execution_id: Option<ExecutionId>,
    /// Filter by catalog path of the playbook.
    path: Option<String>,
    /// Filter by name of the signal.
    signal: Option<String>,
    /// Order by start of the wait: `newest` or `oldest` first. Default: newest. Only for lists.
    #[param(inline)]
    order: Option<InboxOrder>,
    /// Maximum number of waits. Default: 50. Only for lists.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next_cursor` of the previous page. Only for lists.
    cursor: Option<String>,
}

impl InboxParams {
    fn to_filter(&self) -> Result<WaitFilter, ApiError> {
        Ok(WaitFilter {
            execution: self.execution_id,
            path: self.path.as_deref().map(Name::from),
            signal: self.signal.as_deref().map(Name::from),
            oldest_first: self.order.unwrap_or_default() == InboxOrder::Oldest,
            after: self.cursor.as_deref().map(parse_cursor).transpose()?,
            limit: page_limit(self.limit)?,
        })
    }

    fn check_no_page(&self) -> Result<(), ApiError> {
        if self.order.is_some() || self.limit.is_some() || self.cursor.is_some() {
            let detail = "`order`, `limit` and `cursor` are only supported by lists";
            return Err(ApiError::invalid("PARAMETER_INVALID", detail));
        }
        Ok(())
    }
}

/// List the tasks that wait for a signal or an approval, in all runs.
///
/// Reads at most `limit` rows of a table of what waits now; with `path` or `signal` it may examine all of them.
/// The cost does not depend on the runs. Runs that are being cancelled are omitted.
#[utoipa::path(get, path = "/api/inbox", tag = "runs", params(InboxParams),
    responses((status = 200, description = "a page of waiting tasks", body = InboxPage), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn list(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    QueryParams(params): QueryParams<InboxParams>,
) -> ApiResult<InboxPage> {
    let mut filter = params.to_filter()?;
    let limit = filter.limit;
    filter.limit += 1;
    let mut entries = api.store().waits(&filter).await?;
    let has_more = entries.len() > limit;
    entries.truncate(limit);
    let last = entries.last().filter(|_| has_more);
    let next_cursor = last.map(|entry| format_cursor(entry.wait.position()));
    Ok(Json(InboxPage {
        waits: entries.into_iter().map(to_inbox_entry).collect(),
        next_cursor,
    }))
}

/// Count the tasks that wait for a signal or an approval.
///
/// Counts at most 1,000; `is_complete` is false if there are more.
#[utoipa::path(get, path = "/api/inbox/count", tag = "runs", params(InboxParams),
    responses((status = 200, description = "the count", body = InboxCount), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn count(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    QueryParams(params): QueryParams<InboxParams>,
) -> ApiResult<InboxCount> {
    params.check_no_page()?;
    let filter = WaitFilter {
        limit: COUNTED_WAITS_MAX + 1,
        ..params.to_filter()?
    };
    let max = COUNTED_WAITS_MAX as u64;
    let counted = api.store().wait_count(&filter).await?;
    Ok(Json(InboxCount {
        count: counted.min(max),
        is_complete: counted <= max,
    }))
}

/// A cursor: the start, the run and the event of the last wait of a page.
fn format_cursor(position: WaitPosition) -> String {
    format!("{}-{}-{}", position.since.0, position.execution, position.seq)
}

fn parse_cursor(text: &str) -> Result<WaitPosition, ApiError> {
    let mut parts = text.split('-').map(|part| part.parse::<i64>().ok());
    let position = (|| {
        let (since, execution, seq) = (parts.next()??, parts.next()??, parts.next()??);
        Some(WaitPosition {
            since: Time(since),
            execution: ExecutionId(execution),
            seq: Seq(u64::try_from(seq).ok()?),
        })
    })();
    position.filter(|_| parts.next().is_none()).ok_or_else(|| {
        let detail = format!("invalid `cursor` `{text}`: expected the `next_cursor` of a page");
        ApiError::invalid("PARAMETER_INVALID", detail)
    })
}

fn to_inbox_entry(entry: WaitEntry) -> InboxEntry {
    let WaitEntry {
        wait,
        path,
        playbook_version,
        is_next,
    } = entry;
    let approval = wait
        .approval
        .as_ref()
        .and_then(|approval| approval.parse_as::<Map<String, Value>>().ok());
    let text = |key: &str| Some(approval.as_ref()?.get(key)?.as_str()?.to_owned());
    let encoded = encode_segment(wait.signal.as_str());
    InboxEntry {
        href: format!("/api/executions/{}/signal/{encoded}", wait.execution),
        title: text("title"),
        description: text("description"),
        kind: if approval.is_some() {
            InboxKind::Approval
        } else {
            InboxKind::Signal
        },
        form: approval.as_ref().map(approval_form),
        choices: list_choices(&wait, approval.is_some()),
        execution_id: wait.execution,
        seq: wait.seq,
        path,
        version: playbook_version,
        step: wait.run.step,
        run: wait.run.run,
        task: wait.task,
        iteration: wait.iteration,
        signal: wait.signal,
        since: wait.since,
        deadline: wait.deadline,
        is_next,
    }
}

/// The field that a decision sets.
const DECISION_FIELD: &str = "approved";

/// The JSON Schema of the values that a person adds to the decision: those of the approval's form, and a comment unless
/// the form allows no other values.
fn approval_form(approval: &Map<String, Value>) -> Map<String, Value> {
    let mut form = match approval.get("form") {
        Some(Value::Object(form)) => form.clone(),
        _ => Map::from_iter([("type".to_owned(), json!("object"))]),
    };
    let is_open = form.get("additionalProperties") != Some(&Value::Bool(false));
    let mut properties = match form.remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    };
    properties.remove(DECISION_FIELD);
    if is_open && !properties.contains_key("comment") {
        properties.insert(
            "comment".to_owned(),
            json!({"type": "string", "description": "optional"}),
        );
    }
    if let Some(Value::Array(required)) = form.get_mut("required") {
        required.retain(|name| name != DECISION_FIELD);
    }
    form.insert("properties".to_owned(), Value::Object(properties));
    form
}

fn list_choices(wait: &PendingSignalWait, is_approval: bool) -> Vec<InboxChoice> {
    let command = format!(
        "noetl signal {} {}",
        wait.execution,
        quote_argument(wait.signal.as_str())
    );
    if !is_approval {
        return vec![InboxChoice {
            label: "Send signal".to_owned(),
            payload: Map::new(),
            command,
        }];
    }
    let decisions = [("Approve", true), ("Reject", false)].into_iter();
    decisions
        .map(|(label, approved)| InboxChoice {
            label: label.to_owned(),
            payload: Map::from_iter([(DECISION_FIELD.to_owned(), Value::Bool(approved))]),
            command: format!("{command} --set {DECISION_FIELD}={approved}"),
        })
        .collect()
}

/// A text as one segment of a path.
fn encode_segment(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// An argument, quoted for a shell if needed.
fn quote_argument(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use model::id::StepRunId;
    use model::raw::RawJson;

    use super::*;

    fn entry(approval: Option<&Value>, signal: &str) -> InboxEntry {
        let run = StepRunId {
            step: "ask".into(),
            run: 1,
        };
        to_inbox_entry(WaitEntry {
            wait: PendingSignalWait {
                execution: ExecutionId(7),
                seq: Seq(5),
                run,
                task: None,
                iteration: None,
                signal: signal.into(),
                since: Time(0),
                deadline: None,
                approval: approval.map(RawJson::from_serializable),
            },
            path: "demo/a".into(),
            playbook_version: 1,
            is_next: true,
        })
    }

    #[test]
    fn an_approval_has_its_form_and_two_choices() {
        let form = json!({
            "properties": {"approved": {"type": "boolean"}, "amount": {"type": "number"}},
            "required": ["approved", "amount"],
        });
        let entry = entry(Some(&json!({"title": "Ship?", "form": form})), "go");
        assert_eq!(
            (entry.kind, entry.title.as_deref()),
            (InboxKind::Approval, Some("Ship?"))
        );
        let form = Value::from(entry.form.unwrap());
        assert_eq!(form["required"], json!(["amount"]));
        let names: Vec<&String> = form["properties"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["amount", "comment"]);
        let labels: Vec<&str> = entry.choices.iter().map(|choice| choice.label.as_str()).collect();
        assert_eq!(labels, ["Approve", "Reject"]);
        assert_eq!(entry.choices[1].command, "noetl signal 7 go --set approved=false");
        assert_eq!(entry.choices[0].payload["approved"], true);
    }

    #[test]
    fn a_closed_form_gets_no_comment() {
        let form = json!({"properties": {}, "additionalProperties": false});
        let form = entry(Some(&json!({"form": form})), "go").form.unwrap();
        assert_eq!(form["properties"], json!({}));
    }

    #[test]
    fn a_signal_accepts_any_payload() {
        let entry = entry(None, "it's on");
        assert_eq!((entry.kind, entry.form), (InboxKind::Signal, None));
        assert_eq!(entry.href, "/api/executions/7/signal/it%27s%20on");
        assert_eq!(entry.choices[0].command, r"noetl signal 7 'it'\''s on'");
        assert!(entry.choices[0].payload.is_empty());
    }

    #[test]
    fn a_cursor_is_read_back() {
        let position = WaitPosition {
            since: Time(12),
            execution: ExecutionId(34),
            seq: Seq(56),
        };
        assert_eq!(parse_cursor(&format_cursor(position)).unwrap(), position);
        for text in ["", "1-2", "1-2-3-4", "1-2-x"] {
            assert!(parse_cursor(text).is_err(), "{text}");
        }
    }
}
