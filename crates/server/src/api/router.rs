//! The routes with their handlers, and the API document that is generated from them.

use std::sync::OnceLock;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use utoipa::Modify;
use utoipa::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::error::ApiError;
use crate::api::operation_ids::set_operation_ids;
use crate::api::state::ApiState;
use crate::api::{
    bodies, bulk, catalog, client_files, commands, control, credentials, event_pages, events, execution_lists,
    executions, guard, inbox, language, logs, loops, playbooks, queue, references, replay, run_list_stream, sign_in,
    single_sign_on, stream, system, system_status, tokens,
};

/// Maximum size of the JSON body of an ordinary request.
const BODY_MAX: usize = 1024 * 1024;
/// Maximum size of the JSON body of a request with the text of a playbook.
const TEXT_MAX: usize = 4 * 1024 * 1024;
/// Maximum size of a batch of events.
const BATCH_MAX: usize = 4 * 1024 * 1024;
/// Timeout of requests other than long polls and streams.
const REQUEST_DEADLINE: Duration = Duration::from_secs(30);

#[derive(OpenApi)]
#[openapi(
    info(title = "NoETL", description = "API of the NoETL workflow engine: register playbooks, start runs, read their events and results.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")),
    components(schemas(wire::api::Problem)),
    modifiers(&Scheme),
    tags(
        (name = "runs", description = "Start, list and read runs"),
        (name = "control", description = "Cancel, pause, resume, retry and signal runs"),
        (name = "catalog", description = "Playbooks"),
        (name = "events", description = "Report events"),
        (name = "workers", description = "Worker protocol"),
        (name = "tokens", description = "Access tokens and the audit log"),
        (name = "credentials", description = "Credentials (write-only)"),
        (name = "system", description = "Health, metrics and API documentation"),
    )
)]
struct Document;

struct Scheme;

impl Modify for Scheme {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let components = document.components.get_or_insert_default();
        let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        components.add_security_scheme("token", bearer);
    }
}

/// The API document as text.
pub(crate) fn document() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let mut document = all_routes().into_openapi();
        set_operation_ids(&mut document);
        document.to_json().expect("a document serializes to JSON")
    })
}

fn all_routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::with_openapi(Document::openapi())
        .merge(fast_routes())
        .merge(text_routes())
        .merge(slow_routes())
}

/// Every route, and the API document.
pub(crate) fn routes(api: ApiState) -> (Router, utoipa::openapi::OpenApi) {
    let (router, document) = all_routes().split_for_parts();
    let router = router
        .fallback(client_files::file_or_not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(api.clone(), guard::guard_request))
        .with_state(api);
    (router, document)
}

/// Routes with a timeout.
fn fast_routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(executions::execute))
        .routes(routes!(execution_lists::list))
        .routes(routes!(execution_lists::facets))
        .routes(routes!(inbox::list))
        .routes(routes!(inbox::count))
        .routes(routes!(executions::show))
        .routes(routes!(executions::status))
        .routes(routes!(executions::cancellation))
        .routes(routes!(event_pages::list))
        .routes(routes!(executions::outline))
        .merge(loop_routes())
        .routes(routes!(executions::graph))
        .routes(routes!(executions::failures))
        .routes(routes!(queue::waiting))
        .routes(routes!(logs::read))
        .routes(routes!(references::list))
        .routes(routes!(control::cancel))
        .routes(routes!(control::pause))
        .routes(routes!(control::resume))
        .routes(routes!(control::retry))
        .routes(routes!(control::rerun))
        .routes(routes!(control::preview_rerun))
        .routes(routes!(bulk::preview))
        .routes(routes!(bulk::apply))
        .routes(routes!(control::finalize))
        .routes(routes!(control::signal))
        .routes(routes!(control::variables, control::patch))
        .merge(replay_routes())
        .merge(playbook_routes())
        .routes(routes!(commands::renew))
        .routes(routes!(commands::release))
        .routes(routes!(commands::register))
        .routes(routes!(commands::heartbeat))
        .routes(routes!(commands::deregister))
        .routes(routes!(commands::pools))
        .routes(routes!(queue::workers))
        .routes(routes!(queue::queue))
        .routes(routes!(commands::playbook))
        .routes(routes!(commands::events))
        .routes(routes!(commands::loop_results))
        .routes(routes!(commands::manifest))
        .routes(routes!(commands::look_up))
        .routes(routes!(commands::build))
        .routes(routes!(logs::append))
        .routes(routes!(events::one))
        .routes(routes!(events::batch_status))
        .merge(session_routes())
        .merge(system_routes())
        .merge(credential_routes())
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(from_fn(apply_deadline))
}

/// Routes about registered playbooks and the language of playbooks.
fn playbook_routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(catalog::list))
        .routes(routes!(catalog::resource))
        .routes(routes!(language::reference))
        .routes(routes!(playbooks::recent_runs))
        .routes(routes!(playbooks::versions))
        .routes(routes!(playbooks::diff, playbooks::diff_text))
        .routes(routes!(playbooks::ui_schema))
        .routes(routes!(playbooks::graph))
        .routes(routes!(playbooks::callers))
}

/// Routes about the server itself.
fn system_routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(system::healthz))
        .routes(routes!(system::readyz))
        .routes(routes!(system::metrics))
        .routes(routes!(system::stats))
        .routes(routes!(system_status::show))
        .routes(routes!(system::health))
        .routes(routes!(system::api_health))
        .routes(routes!(system::document))
        .routes(routes!(system::docs))
        .routes(routes!(system::licenses))
        .routes(routes!(system::docs_script))
        .routes(routes!(system::docs_style))
}

/// Routes of access tokens, the audit log and credentials.
fn credential_routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(tokens::create, tokens::list))
        .routes(routes!(tokens::revoke))
        .routes(routes!(credentials::set, credentials::list))
        .routes(routes!(credentials::types))
        .routes(routes!(credentials::show, credentials::remove))
        .routes(routes!(
            credentials::keychain,
            credentials::set_keychain,
            credentials::forget_keychain
        ))
        .routes(routes!(credentials::rotate))
        .routes(routes!(credentials::secrets))
        .routes(routes!(tokens::audit))
}

/// Routes that replay the log of a run.
fn replay_routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(replay::state))
        .routes(routes!(replay::describe))
        .routes(routes!(replay::check))
}

/// Sign-in of the web client.
fn session_routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(sign_in::show, sign_in::create, sign_in::end))
        .routes(routes!(single_sign_on::start))
        .routes(routes!(single_sign_on::complete))
        .routes(routes!(single_sign_on::show_failure))
}

/// Routes with a timeout that accept a playbook of the maximum size, escaped as JSON.
fn text_routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(catalog::register))
        .routes(routes!(catalog::validate))
        .routes(routes!(language::complete))
        .routes(routes!(language::hover))
        .layer(DefaultBodyLimit::max(TEXT_MAX))
        .layer(from_fn(apply_deadline))
}

/// Routes about the iterations of loops and about time.
fn loop_routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(loops::counts))
        .routes(routes!(loops::cells))
        .routes(routes!(loops::durations))
        .routes(routes!(loops::timeline))
}

/// Routes that wait, stream or accept large bodies.
fn slow_routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(events::batch))
        .routes(routes!(commands::claim))
        .routes(routes!(commands::listen))
        .routes(routes!(stream::one))
        .routes(routes!(run_list_stream::all))
        .routes(routes!(bodies::read))
        .routes(routes!(references::resolve))
        .routes(routes!(references::step_result))
        .layer(DefaultBodyLimit::max(BATCH_MAX))
        .merge(
            OpenApiRouter::new()
                .routes(routes!(bodies::put))
                .routes(routes!(references::put)),
        )
}

async fn apply_deadline(request: axum::extract::Request, next: axum::middleware::Next) -> Response {
    match tokio::time::timeout(REQUEST_DEADLINE, next.run(request)).await {
        Ok(response) => response,
        Err(_) => ApiError::unavailable("the request timed out after 30 s").into_response(),
    }
}

async fn method_not_allowed(method: Method, uri: Uri) -> ApiError {
    let detail = format!("`{}` does not support {method}", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", detail)
}
