//! Actions on many runs: preview and apply.
//!
//! The preview returns the runs to which the action applies, and the client sends them in bounded requests. So the action
//! applies to no run that started after the preview, and the server keeps no state of it.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use futures_util::StreamExt as _;
use futures_util::stream;
use model::id::ExecutionId;
use store::{ExecutionFilter, ExecutionRow};
use tokio::time::Instant;
use wire::api::{BulkOutcome, BulkPreview, BulkPreviewRequest, BulkRequest, BulkResponse, BulkResult};

use crate::api::access::{Authorized, Operate};
use crate::api::error::{ApiError, ErrorResponses};
use crate::api::execution_lists::ExecutionParams;
use crate::api::extract::{JsonBody, QueryParams};
use crate::api::state::ApiState;
use crate::api::{ApiResult, Json};
use crate::bulk::{BulkActionError, preview_action};

/// Maximum number of runs of a preview; older ones are left out.
const PREVIEWED_MAX: usize = 10_000;
/// Maximum number of runs of a request that applies an action.
const APPLIED_MAX: usize = 100;
/// Maximum length of a deduplication key.
const KEY_MAX: usize = 100;
/// Number of runs to which an action is applied at a time.
const CONCURRENT_MAX: usize = 8;
/// After this time, the action starts for no further run, so that the response arrives before the timeout of the request.
const START_MAX: Duration = Duration::from_secs(15);
/// Number of runs that are read by their IDs at a time.
const READ_AT_ONCE: usize = 16;

impl From<BulkActionError> for ApiError {
    fn from(error: BulkActionError) -> Self {
        match error {
            BulkActionError::Control(error) => error.into(),
            BulkActionError::Submit(error) => error.into(),
        }
    }
}

/// Preview an action on many runs.
///
/// The query parameters select runs as in the list of runs; `execution_ids` selects from them. Counts at most the newest
/// 10,000 runs; `is_complete` is false if there are more. Changes nothing.
#[utoipa::path(post, path = "/api/executions/bulk/preview", tag = "control", params(ExecutionParams),
    request_body = BulkPreviewRequest,
    responses((status = 200, description = "the runs to which the action applies", body = BulkPreview), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("operator"))))]
pub(crate) async fn preview(
    State(api): State<ApiState>,
    _caller: Authorized<Operate>,
    QueryParams(params): QueryParams<ExecutionParams>,
    JsonBody(request): JsonBody<BulkPreviewRequest>,
) -> ApiResult<BulkPreview> {
    params.check_no_page()?;
    let filter = params.to_filter(&api).await?;
    let (rows, is_complete) = match filter {
        None => (Vec::new(), true),
        Some(filter) if request.execution_ids.is_empty() => find_selected(&api, filter).await?,
        Some(filter) => (find_listed(&api, &filter, request.execution_ids).await?, true),
    };
    Ok(Json(preview_action(request.action, &rows, is_complete)))
}

/// The newest runs that match, and whether these are all.
async fn find_selected(api: &ApiState, filter: ExecutionFilter) -> Result<(Vec<ExecutionRow>, bool), ApiError> {
    let limit = PREVIEWED_MAX + 1;
    let mut rows = api.store().executions(&ExecutionFilter { limit, ..filter }).await?;
    let is_complete = rows.len() <= PREVIEWED_MAX;
    rows.truncate(PREVIEWED_MAX);
    Ok((rows, is_complete))
}

/// The listed runs that exist and match, newest first.
async fn find_listed(
    api: &ApiState,
    filter: &ExecutionFilter,
    mut ids: Vec<ExecutionId>,
) -> Result<Vec<ExecutionRow>, ApiError> {
    check_count(ids.len(), PREVIEWED_MAX)?;
    ids.sort_unstable_by(|a, b| b.cmp(a));
    ids.dedup();
    let now = api.store().now();
    let reads = ids.clone().into_iter().map(|id| {
        let store = Arc::clone(api.store());
        async move { store.execution(id).await }
    });
    let read: Vec<_> = stream::iter(reads).buffered(READ_AT_ONCE).collect().await;
    let labels = if filter.labels.is_empty() {
        None
    } else {
        Some(api.store().labels(&ids).await?)
    };
    let mut rows = Vec::new();
    for row in read {
        let has_labels = |id| {
            let labels = labels.as_ref().map(|labels| labels.get(&id));
            labels.is_none_or(|labels| labels.is_some_and(|labels| labels.contains_all(&filter.labels)))
        };
        rows.extend(row?.filter(|row| filter.matches(row, now) && has_labels(row.id)));
    }
    Ok(rows)
}

fn check_count(count: usize, max: usize) -> Result<(), ApiError> {
    if (1..=max).contains(&count) {
        return Ok(());
    }
    let detail = format!("invalid `execution_ids`: expected 1 to {max} runs, found {count}");
    Err(ApiError::invalid("BODY_INVALID", detail))
}

/// Apply an action to runs.
///
/// Each run has its own result: the request succeeds even if the action is refused for some runs. A request that is
/// repeated with the same key does not repeat the action. Starts no action after 15 seconds; the remaining runs are
/// `pending` then.
#[utoipa::path(post, path = "/api/executions/bulk", tag = "control", request_body = BulkRequest,
    responses((status = 200, description = "the result for each run", body = BulkResponse), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("operator"))))]
pub(crate) async fn apply(
    State(api): State<ApiState>,
    _caller: Authorized<Operate>,
    JsonBody(request): JsonBody<BulkRequest>,
) -> ApiResult<BulkResponse> {
    check_count(request.execution_ids.len(), APPLIED_MAX)?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if request.key.is_empty() || request.key.len() > KEY_MAX || !request.key.bytes().all(is_plain) {
        let detail = format!("invalid `key`: expected 1 to {KEY_MAX} letters, digits, `-`, `_` or `.`");
        return Err(ApiError::invalid("BODY_INVALID", detail));
    }
    let started_at = Instant::now();
    let request = Arc::new(request);
    let actions = request.execution_ids.clone().into_iter().map(|id| {
        let (api, request) = (api.clone(), Arc::clone(&request));
        async move {
            if started_at.elapsed() > START_MAX {
                return pending(id);
            }
            apply_one(&api, id, &request).await
        }
    });
    let results = stream::iter(actions).buffered(CONCURRENT_MAX).collect().await;
    Ok(Json(BulkResponse { results }))
}

async fn apply_one(api: &ApiState, id: ExecutionId, request: &BulkRequest) -> BulkResult {
    let reason = request.reason.clone();
    let applied = api.server.apply_bulk_action(id, request.action, &request.key, reason);
    match applied.await {
        Ok(new_execution_id) => BulkResult {
            outcome: BulkOutcome::Done,
            new_execution_id,
            ..pending(id)
        },
        Err(error) => {
            let error = ApiError::from(error);
            BulkResult {
                outcome: BulkOutcome::Refused,
                code: Some(error.code().to_owned()),
                detail: Some(error.detail().to_owned()),
                ..pending(id)
            }
        }
    }
}

fn pending(id: ExecutionId) -> BulkResult {
    BulkResult {
        execution_id: id,
        outcome: BulkOutcome::Pending,
        new_execution_id: None,
        code: None,
        detail: None,
    }
}
