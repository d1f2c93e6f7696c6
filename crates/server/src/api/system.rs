//! Health, figures and the pages about the API itself.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use model::status::RunStatus;
use serde_json::{Value, json};
use store::Filter;

use crate::api::access::{Authorized, View};
use crate::api::error::{ApiError, Failures};
use crate::api::state::Api;
use crate::api::{Answer, Json};

/// So many of the latest runs are counted.
const COUNTED: usize = 1_000;

/// Whether the process runs.
#[utoipa::path(get, path = "/healthz", tag = "system",
    responses((status = 200, description = "it runs", body = Object), Failures))]
pub(crate) async fn healthz() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// The same, by the name that older clients call.
#[utoipa::path(get, path = "/health", tag = "system",
    responses((status = 200, description = "it runs", body = Object), Failures),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn health(_may: Authorized<View>) -> Json<Value> {
    healthz().await
}

/// The same, with the version and the clock, for `noetl doctor`.
#[utoipa::path(get, path = "/api/health", tag = "system",
    responses((status = 200, description = "it runs", body = Object), Failures),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn api_health(State(api): State<Api>, _may: Authorized<View>) -> Json<Value> {
    let version = env!("CARGO_PKG_VERSION");
    Json(json!({ "status": "ok", "version": version, "time": api.store().now() }))
}

/// Whether the server can take work: the store answers, and no part of the server has died.
#[utoipa::path(get, path = "/readyz", tag = "system",
    responses((status = 200, description = "it can", body = Object), Failures))]
pub(crate) async fn readyz(State(api): State<Api>) -> Answer<Value> {
    if let Some(part) = api.server.dead_part() {
        return Err(ApiError::unavailable(format!("{part} has died"))
            .remedy("restart the server; its log says why"));
    }
    api.store().health()?;
    Ok(Json(json!({ "status": "ready" })))
}

/// Figures for monitoring, as Prometheus reads them.
#[utoipa::path(get, path = "/metrics", tag = "system",
    responses((status = 200, description = "the figures", content_type = "text/plain", body = String), Failures),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn metrics(State(api): State<Api>, _may: Authorized<View>) -> Response {
    let type_ = "text/plain; version=0.0.4; charset=utf-8";
    ([(CONTENT_TYPE, type_)], api.metrics.text()).into_response()
}

/// How the latest runs stand, and who works.
#[utoipa::path(get, path = "/api/dashboard/stats", tag = "system",
    responses((status = 200, description = "counts of the latest thousand runs", body = Object), Failures),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn stats(State(api): State<Api>, _may: Authorized<View>) -> Answer<Value> {
    let filter = Filter {
        limit: COUNTED,
        ..Filter::default()
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

/// The API document.
#[utoipa::path(get, path = "/openapi.json", tag = "system",
    responses((status = 200, description = "OpenAPI 3.1", body = Object), Failures),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn document(_may: Authorized<View>) -> Response {
    let type_ = "application/json";
    (
        [(CONTENT_TYPE, type_)],
        crate::api::router::document().to_owned(),
    )
        .into_response()
}

/// A page about the API.
#[utoipa::path(get, path = "/docs", tag = "system",
    responses((status = 200, description = "the page", content_type = "text/html", body = String), Failures),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn docs(_may: Authorized<View>) -> Response {
    let page = include_str!("docs/page.html");
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response()
}

/// The page's script.
#[utoipa::path(get, path = "/docs/page.js", tag = "system",
    responses((status = 200, description = "the script", content_type = "text/javascript", body = String), Failures),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn docs_script(_may: Authorized<View>) -> Response {
    let script = include_str!("docs/page.js");
    ([(CONTENT_TYPE, "text/javascript; charset=utf-8")], script).into_response()
}

/// The page's style.
#[utoipa::path(get, path = "/docs/page.css", tag = "system",
    responses((status = 200, description = "the style", content_type = "text/css", body = String), Failures),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn docs_style(_may: Authorized<View>) -> Response {
    let style = include_str!("docs/page.css");
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], style).into_response()
}
