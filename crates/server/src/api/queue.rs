//! Workers and the queue, for operators: who works, on what, and why a command waits.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::State;
use model::id::Name;
use model::time::Time;
use store::{ClaimedCommandRow, PendingScope, WorkerSessionRow};
use wire::api::{
    LeaseEntry, QueueOverview, ServerEntry, WaitingCommandList, WorkerOverview, WorkerPoolStatus, WorkerStatus,
};

use crate::api::access::{Administer, Authorized, View};
use crate::api::error::{ApiError, ErrorResponses};
use crate::api::executions::find_row;
use crate::api::extract::ExecutionPath;
use crate::api::state::ApiState;
use crate::api::{ApiResult, Json};
use crate::transport::SESSION_TTL;
use crate::work_queue::{WorkerFleet, count_leases, group_by_kinds, parse_description, to_waiting_command};

/// Maximum number of worker sessions that are read.
const SESSIONS_MAX: usize = 1_000;
/// Maximum number of leases that are read.
const LEASES_MAX: usize = 2_000;
/// How long an expired session is listed.
const EXPIRED_LISTED: Duration = Duration::from_secs(600);
/// Maximum number of pools whose queue is read.
const POOLS_MAX: usize = 64;
/// Maximum number of waiting commands of one pool that are read.
const POOL_COMMANDS_MAX: usize = 1_000;
/// Maximum number of waiting commands that are read.
const COMMANDS_MAX: usize = 5_000;
/// Maximum number of waiting commands of one pool in a response.
const LISTED_COMMANDS_MAX: usize = 100;
/// Maximum number of waiting commands of one run in a response.
const RUN_COMMANDS_MAX: usize = 200;

/// The workers and leases that the store has.
struct FleetRows {
    sessions: Vec<WorkerSessionRow>,
    claimed: Vec<ClaimedCommandRow>,
}

async fn load_fleet_rows(api: &ApiState) -> Result<FleetRows, ApiError> {
    let monitoring = api.store().monitoring_store();
    Ok(FleetRows {
        sessions: monitoring.worker_sessions(SESSIONS_MAX).await?,
        claimed: monitoring.claimed_commands(LEASES_MAX).await?,
    })
}

async fn load_fleet(api: &ApiState) -> Result<WorkerFleet, ApiError> {
    let rows = load_fleet_rows(api).await?;
    let processes = api.store().processes().await?;
    Ok(WorkerFleet::new(&rows.sessions, &rows.claimed, &processes))
}

/// List the workers of the cluster, the commands that they hold, and the servers.
///
/// Reads at most 1,000 sessions and 2,000 leases. The addresses of servers are only for admins.
#[utoipa::path(get, path = "/api/workers", tag = "workers",
    responses((status = 200, description = "pools, workers, leases and servers", body = WorkerOverview), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn workers(State(api): State<ApiState>, caller: Authorized<View>) -> ApiResult<WorkerOverview> {
    let rows = load_fleet_rows(&api).await?;
    let now = api.store().now();
    let is_complete = rows.sessions.len() < SESSIONS_MAX && rows.claimed.len() < LEASES_MAX;
    let workers = list_workers(&rows, now);
    let own = &api.server.shared.owner;
    let is_admin = caller.check_also::<Administer>().is_ok();
    let processes = api.store().processes().await?.into_iter();
    let servers = processes.map(|process| ServerEntry {
        is_this: process.owner == *own,
        owner: process.owner.to_string(),
        address: process.address.filter(|_| is_admin),
        is_alive: process.is_alive,
        heartbeat_at: process.heartbeat_at,
    });
    Ok(Json(WorkerOverview {
        pools: list_pools(&workers),
        workers,
        servers: servers.collect(),
        leases: rows.claimed.into_iter().map(|row| to_lease(row, now)).collect(),
        is_complete,
    }))
}

fn list_workers(rows: &FleetRows, now: Time) -> Vec<WorkerStatus> {
    let leases = count_leases(&rows.claimed);
    let is_listed = |session: &&WorkerSessionRow| session.is_alive || now.since(session.expires_at) < EXPIRED_LISTED;
    let to_status = |session: &WorkerSessionRow| {
        let description = parse_description(session);
        WorkerStatus {
            worker: session.worker.clone(),
            is_alive: session.is_alive,
            pool: description.pool,
            slots: description.slots,
            kinds: description.kinds,
            version: description.version,
            leases: leases.get(&session.worker).copied().unwrap_or(0),
            heartbeat_at: session.is_alive.then(|| session.expires_at.before(SESSION_TTL)),
            expires_at: session.expires_at,
        }
    };
    let mut workers: Vec<WorkerStatus> = rows.sessions.iter().filter(is_listed).map(to_status).collect();
    workers.sort_by(|a, b| (&a.pool, &a.worker).cmp(&(&b.pool, &b.worker)));
    workers
}

fn list_pools(workers: &[WorkerStatus]) -> Vec<WorkerPoolStatus> {
    let mut pools: BTreeMap<Option<&Name>, WorkerPoolStatus> = BTreeMap::new();
    for worker in workers.iter().filter(|worker| worker.is_alive) {
        let pool = pools.entry(worker.pool.as_ref()).or_insert_with(|| WorkerPoolStatus {
            pool: worker.pool.clone(),
            workers: 0,
            slots: 0,
            leases: 0,
        });
        pool.workers += 1;
        pool.slots = pool.slots.saturating_add(worker.slots.unwrap_or(0));
        pool.leases += worker.leases;
    }
    pools.into_values().collect()
}

fn to_lease(row: ClaimedCommandRow, now: Time) -> LeaseEntry {
    let is_expired = row.claimed_at.is_none() || row.expires_at.is_none_or(|expires_at| expires_at <= now);
    LeaseEntry {
        command_id: row.command.id,
        execution_id: row.command.id.execution,
        name: row.name,
        step: row.command.run.step,
        worker: row.worker,
        claimed_at: row.claimed_at,
        expires_at: row.expires_at,
        is_expired,
    }
}

/// List the commands that wait for workers, by pool and kinds, with the reason why they wait.
///
/// Reads at most 5,000 waiting commands, 1,000 of each pool, however long the queue is. The reason is the first
/// condition of a claim that is not met: the state of the run, the pool, the kinds, or free slots.
#[utoipa::path(get, path = "/api/queue", tag = "workers",
    responses((status = 200, description = "the queues and their oldest commands", body = QueueOverview), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn queue(State(api): State<ApiState>, _caller: Authorized<View>) -> ApiResult<QueueOverview> {
    let monitoring = api.store().monitoring_store();
    let pools = monitoring.pending_pools(POOLS_MAX).await?;
    let mut overview = QueueOverview {
        queues: Vec::new(),
        commands: Vec::new(),
        is_complete: pools.len() < POOLS_MAX,
    };
    if pools.is_empty() {
        return Ok(Json(overview));
    }
    let fleet = load_fleet(&api).await?;
    let mut remaining = COMMANDS_MAX;
    for pool in pools {
        let limit = remaining.min(POOL_COMMANDS_MAX);
        let scope = PendingScope::Pool(pool.clone());
        let pending = monitoring.pending_commands(&scope, limit).await?;
        overview.is_complete &= pending.len() < limit;
        remaining -= pending.len();
        overview.queues.extend(group_by_kinds(&pool, &pending, &fleet));
        let oldest = pending.iter().take(LISTED_COMMANDS_MAX);
        overview
            .commands
            .extend(oldest.map(|pending| to_waiting_command(pending, &fleet)));
    }
    Ok(Json(overview))
}

/// List the commands of a run that wait for workers, with the reason why they wait.
///
/// Costs a read of the run's open commands; if some wait, also of the workers and leases, independent of the length of
/// the run's log.
#[utoipa::path(get, path = "/api/executions/{id}/waiting", tag = "runs", params(("id" = String, Path)),
    responses((status = 200, description = "the commands that wait", body = WaitingCommandList), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn waiting(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    ExecutionPath(id): ExecutionPath,
) -> ApiResult<WaitingCommandList> {
    find_row(&api, id).await?;
    let monitoring = api.store().monitoring_store();
    let scope = PendingScope::Execution(id);
    let pending = monitoring.pending_commands(&scope, RUN_COMMANDS_MAX).await?;
    let is_complete = pending.len() < RUN_COMMANDS_MAX;
    if pending.is_empty() {
        let commands = Vec::new();
        return Ok(Json(WaitingCommandList { commands, is_complete }));
    }
    let fleet = load_fleet(&api).await?;
    let commands = pending.iter().map(|pending| to_waiting_command(pending, &fleet));
    Ok(Json(WaitingCommandList {
        commands: commands.collect(),
        is_complete,
    }))
}
