//! Version, store, retention and limits of this server.

use axum::extract::State;
use wire::api::{LimitEntry, LimitUnit, ResultStoreStatus, StoreStatus, SystemStatus};

use crate::api::access::{AccessMode, Administer, Authorized, View};
use crate::api::error::ErrorResponses;
use crate::api::state::ApiState;
use crate::api::{ApiResult, Json};

/// Maximum number of runs that are counted.
const RUNS_COUNTED_MAX: u64 = 100_000;

/// Read the version, store, retention and limits of this server.
///
/// Locations and addresses are only for admins; passwords are never returned. Counts at most 100,000 runs.
#[utoipa::path(get, path = "/api/system", tag = "system",
    responses((status = 200, description = "state and settings of the server", body = SystemStatus), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn show(State(api): State<ApiState>, caller: Authorized<View>) -> ApiResult<SystemStatus> {
    let is_admin = caller.check_also::<Administer>().is_ok();
    let size = api.store().monitoring_store().size(RUNS_COUNTED_MAX + 1).await?;
    let system = &api.system;
    let for_admin = |text: &Option<String>| text.clone().filter(|_| is_admin);
    Ok(Json(SystemStatus {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        is_release_build: !cfg!(debug_assertions),
        started_at: api.started_at,
        requires_tokens: api.access == AccessMode::Tokens,
        store: StoreStatus {
            kind: system.backend,
            location: for_admin(&system.store_location),
            bytes: size.bytes,
            runs: size.executions.min(RUNS_COUNTED_MAX),
            is_runs_complete: size.executions <= RUNS_COUNTED_MAX,
        },
        results: ResultStoreStatus {
            retention_s: system.retention.map(|retention| retention.as_secs()),
            location: for_admin(&system.result_location),
            configured: system.result_stores.clone(),
        },
        publishes_events: system.nats_address.is_some(),
        nats_address: for_admin(&system.nats_address),
        limits: list_limits(&api.server.shared.catalog.limits()),
    }))
}

fn list_limits(limits: &engine::ExecutionLimits) -> Vec<LimitEntry> {
    let entry = |name: &str, value: u64, unit: LimitUnit, code: Option<&str>| LimitEntry {
        name: name.to_owned(),
        value,
        unit,
        code: code.map(str::to_owned),
    };
    vec![
        entry(
            "Runs of one step",
            limits.step_runs_max.into(),
            LimitUnit::Count,
            Some("LIMIT_STEP_RUNS"),
        ),
        entry(
            "Depth of sub-playbooks",
            limits.depth_max.into(),
            LimitUnit::Count,
            Some("LIMIT_DEPTH"),
        ),
        entry(
            "Size of ctx",
            limits.ctx_bytes_max as u64,
            LimitUnit::Bytes,
            Some("LIMIT_CTX"),
        ),
        entry(
            "Size of an event",
            limits.event_bytes_max as u64,
            LimitUnit::Bytes,
            Some("LIMIT_EVENT"),
        ),
        entry(
            "Time that a command waits for a worker",
            limits.schedule_to_start.as_secs(),
            LimitUnit::Seconds,
            Some("SCHEDULE_TO_START"),
        ),
        entry(
            "Worker crashes before a command is dead-lettered",
            limits.strikes_max.into(),
            LimitUnit::Count,
            Some("DEAD_LETTER"),
        ),
        entry(
            "Time that tasks have to stop",
            limits.stop_grace.as_secs(),
            LimitUnit::Seconds,
            None,
        ),
        entry(
            "Default number of concurrent iterations",
            limits.max_in_flight.into(),
            LimitUnit::Count,
            None,
        ),
    ]
}
