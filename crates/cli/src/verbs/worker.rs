//! `noetl worker`: runs tasks for a remote server until a signal stops it.

use std::sync::Arc;
use std::time::Duration;

use model::id::{Name, WorkerId};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wire::api::{HeartbeatRequest, SessionRequest, SessionResponse, WorkerDescription};
use wire::{AccessToken, CallError, Client, HttpTransport};
use worker::{HttpBodyStore, HttpTaskLogs, LogShipper, WorkEnd, Worker};

use crate::app::{App, VerbResult};
use crate::args::WorkerArgs;
use crate::cli_error::{CliError, Exit};
use crate::network_access::{NetworkAccess, resolve_addresses};
use crate::remote;
use crate::signals;
use crate::worker_setup::{self, WorkerSetup};

/// Delay before the worker retries to register.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// How long the worker waits for its name; the session of a killed worker expires within 15 s.
const NAME_TIMEOUT: Duration = Duration::from_secs(20);

/// Runs the worker until a signal stops it.
pub(crate) async fn worker(app: &App, args: &WorkerArgs) -> VerbResult {
    let address = app.settings.server.as_ref().ok_or_else(|| {
        CliError::usage("no server specified: pass --server URL, set NOETL_SERVER, or select a context")
            .help("add a context with `noetl context add NAME --server URL`")
    })?;
    let client = remote::new_client(address)?;
    let id = WorkerId(args.name.clone().unwrap_or_else(unique_name).into());
    let slots = args.slots.unwrap_or(app.settings.slots);
    let stop = signals::cancel_on_signal();
    let Some(client) = register_worker(app, args, client, &id, &stop).await? else {
        return Ok(Exit::Done);
    };
    let logs = Arc::new(LogShipper::start(Arc::new(HttpTaskLogs::new(client.clone()))));
    let home_store = results::HomeStore::Server(Arc::new(HttpBodyStore::new(client.clone())));
    let bodies = Arc::new(results::StoreRouter::open(&app.settings.storage, home_store)?);
    let spills_to = worker_setup::describe_spill_location(&bodies);
    let setup = WorkerSetup {
        worker: id.clone(),
        pool: &args.pool,
        kinds: Some(worker_kinds(app, args)),
        slots,
        allow_env: &args.allow_env,
        bodies,
        logs: logs.clone(),
        network_access: NetworkAccess {
            allow_private: false,
            protected: resolve_addresses(address.servers.iter().map(String::as_str)).await,
        },
    };
    let pool = &args.pool;
    app.output
        .info(&format!("started worker {id}   pool {pool}, {slots} slots"));
    app.output.info(&spills_to);
    let worker = Worker::new(setup.config(app), Arc::new(HttpTransport::new(client)));
    let end = worker.run(stop).await;
    logs.close().await;
    if end == WorkEnd::Replaced {
        let message = format!("stopped: another process registered as worker `{id}`");
        let problem = CliError::new(Exit::NotAllowed, "SESSION_MISMATCH", message);
        return Err(problem.help("use a unique --name for each worker, or omit --name"));
    }
    app.output.info("stopped; unfinished work was returned to the queue");
    Ok(Exit::Done)
}

fn worker_kinds(app: &App, args: &WorkerArgs) -> Vec<Name> {
    if args.kinds.is_empty() {
        return worker_setup::all_kinds(app);
    }
    let kinds = args.kinds.iter();
    kinds.map(|kind| Name::from(kind.trim())).collect()
}

/// Registers the worker and returns a client that sends its session secret; `None` if a signal stops it first. Retries
/// while the server is unreachable, and up to `NAME_TIMEOUT` while the name belongs to another session.
async fn register_worker(
    app: &App,
    args: &WorkerArgs,
    client: Client,
    worker: &WorkerId,
    stop: &CancellationToken,
) -> Result<Option<Client>, CliError> {
    let request = SessionRequest {
        heartbeat: HeartbeatRequest {
            worker: worker.clone(),
            claims: Vec::new(),
            description: WorkerDescription {
                pool: Some(Name::from(args.pool.as_str())),
                slots: Some(args.slots.unwrap_or(app.settings.slots)),
                ..WorkerDescription::default()
            },
        },
        session_secret: true,
    };
    let start = Instant::now();
    let mut has_notified = false;
    loop {
        let response = client.post("/api/worker/pool/register", &request).await;
        let error = match response {
            Ok(SessionResponse { session_secret, .. }) => {
                // An older server returns no secret and identifies workers by their access tokens.
                let secret = session_secret.map(|secret| AccessToken::new(&secret));
                return Ok(Some(match secret {
                    Some(secret) => client.with_session(secret),
                    None => client,
                }));
            }
            Err(error) if is_retryable(&error, start) => error,
            Err(error) => return Err(error.into()),
        };
        if !std::mem::replace(&mut has_notified, true) {
            app.output.info(&format!("{}; retrying", CliError::from(error).message));
        }
        tokio::select! {
            () = tokio::time::sleep(RETRY_DELAY) => {}
            () = stop.cancelled() => return Ok(None),
        }
    }
}

fn is_retryable(error: &CallError, started_at: Instant) -> bool {
    let is_name_in_use = error.code() == Some("WORKER_NAME_IN_USE");
    error.is_transient() || (is_name_in_use && started_at.elapsed() < NAME_TIMEOUT)
}

/// Returns a name that is unique for each start of a worker.
fn unique_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = match host.trim() {
        "" => "worker",
        host => host,
    };
    let chance = rand::random::<u32>();
    format!("{host}-{}-{chance:08x}", std::process::id())
}
