//! Health, metrics, and the pages about the API itself.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use model::status::RunStatus;
use serde_json::{Value, json};
use store::ExecutionFilter;

use crate::api::access::{Authorized, View};
use crate::api::error::{ApiError, ErrorResponses};
use crate::api::state::ApiState;
use crate::api::{ApiResult, Json};

/// Number of runs in the dashboard counts.
const COUNTED_EXECUTIONS_MAX: usize = 1_000;

/// Check that the process is running.
#[utoipa::path(get, path = "/healthz", tag = "system",
    responses((status = 200, description = "the process is running", body = Object), ErrorResponses))]
pub(crate) async fn healthz() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// Check that the process is running; name for older clients.
#[utoipa::path(get, path = "/health", tag = "system",
    responses((status = 200, description = "the process is running", body = Object), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn health(_caller: Authorized<View>) -> Json<Value> {
    healthz().await
}

/// Return the server's version and clock, for `noetl doctor`.
#[utoipa::path(get, path = "/api/health", tag = "system",
    responses((status = 200, description = "the process is running", body = Object), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn api_health(State(api): State<ApiState>, _caller: Authorized<View>) -> Json<Value> {
    let version = env!("CARGO_PKG_VERSION");
    Json(json!({ "status": "ok", "version": version, "time": api.store().now() }))
}

/// Check that the server is ready: the store is available and no background task has stopped.
#[utoipa::path(get, path = "/readyz", tag = "system",
    responses((status = 200, description = "the server is ready", body = Object), ErrorResponses))]
pub(crate) async fn readyz(State(api): State<ApiState>) -> ApiResult<Value> {
    if let Some(part) = api.server.dead_task() {
        return Err(ApiError::unavailable(format!("background task stopped: {part}"))
            .with_remedy("restart the server; its log has the panic message"));
    }
    api.store().check_health()?;
    Ok(Json(json!({ "status": "ready" })))
}

/// Read the metrics in the Prometheus text format.
#[utoipa::path(get, path = "/metrics", tag = "system",
    responses((status = 200, description = "the metrics", content_type = "text/plain", body = String), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn metrics(State(api): State<ApiState>, _caller: Authorized<View>) -> Response {
    let type_ = "text/plain; version=0.0.4; charset=utf-8";
    ([(CONTENT_TYPE, type_)], api.metrics.render()).into_response()
}

/// Count the latest runs by status, and the workers.
#[utoipa::path(get, path = "/api/dashboard/stats", tag = "system",
    responses((status = 200, description = "counts of the latest 1,000 runs", body = Object), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn stats(State(api): State<ApiState>, _caller: Authorized<View>) -> ApiResult<Value> {
    let filter = ExecutionFilter {
        limit: COUNTED_EXECUTIONS_MAX,
        ..ExecutionFilter::default()
    };
    let rows = api.store().executions(&filter).await?;
    let count = |status| rows.iter().filter(|row| row.status == status).count();
    Ok(Json(json!({
        "counted": rows.len(),
        "running": count(RunStatus::Running),
        "paused": count(RunStatus::Paused),
        "completed": count(RunStatus::Completed),
        "failed": count(RunStatus::Failed),
        "cancelled": count(RunStatus::Cancelled),
        "workers": api.workers.list().len(),
    })))
}

/// Read the API document.
#[utoipa::path(get, path = "/openapi.json", tag = "system",
    responses((status = 200, description = "OpenAPI 3.1", body = Object), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn document(_caller: Authorized<View>) -> Response {
    let type_ = "application/json";
    ([(CONTENT_TYPE, type_)], crate::api::router::document().to_owned()).into_response()
}

/// Show the API documentation page.
#[utoipa::path(get, path = "/docs", tag = "system",
    responses((status = 200, description = "the page", content_type = "text/html", body = String), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn docs(_caller: Authorized<View>) -> Response {
    let page = include_str!("docs/page.html");
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response()
}

/// List the libraries of the server with their licenses.
#[utoipa::path(get, path = "/docs/licenses.txt", tag = "system",
    responses((status = 200, description = "name, version and license of each library", content_type = "text/plain", body = String), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn licenses(_caller: Authorized<View>) -> Response {
    let licenses = include_str!("docs/licenses.txt");
    ([(CONTENT_TYPE, "text/plain; charset=utf-8")], licenses).into_response()
}

/// Script of the API documentation page.
#[utoipa::path(get, path = "/docs/page.js", tag = "system",
    responses((status = 200, description = "the script", content_type = "text/javascript", body = String), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn docs_script(_caller: Authorized<View>) -> Response {
    let script = include_str!("docs/page.js");
    ([(CONTENT_TYPE, "text/javascript; charset=utf-8")], script).into_response()
}

/// Style sheet of the API documentation page.
#[utoipa::path(get, path = "/docs/page.css", tag = "system",
    responses((status = 200, description = "the style", content_type = "text/css", body = String), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn docs_style(_caller: Authorized<View>) -> Response {
    let style = include_str!("docs/page.css");
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], style).into_response()
}
