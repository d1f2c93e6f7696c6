//! `noetl worker`: runs tasks for a remote server until a signal stops it.

use std::sync::Arc;
use std::time::Duration;

use model::id::{Name, WorkerId};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wire::api::{HeartbeatRequest, SessionRequest, SessionResponse};
use wire::{CallError, Client, Remote, Token};
use worker::{ServerBodies, ServerLogs, ShippedLogs, WorkEnd, Worker};

use crate::app::{App, Ended};
use crate::args::WorkerArgs;
use crate::hiring::{self, Hired};
use crate::problem::{Exit, Problem};
use crate::reach::{Reach, addresses};
use crate::remote;
use crate::stop;

/// Delay before the worker retries to register.
const AGAIN: Duration = Duration::from_secs(1);
/// How long the worker waits for its name; the session of a killed worker expires within 15 s.
const NAME_WAIT: Duration = Duration::from_secs(20);

/// Runs the worker until a signal stops it.
pub(crate) async fn worker(app: &App, args: &WorkerArgs) -> Ended {
    let address = app.settings.server.as_ref().ok_or_else(|| {
        Problem::usage(
            "no server specified: pass --server URL, set NOETL_SERVER, or select a context",
        )
        .help("add a context with `noetl context add NAME --server URL`")
    })?;
    let client = remote::client(address)?;
    let id = WorkerId(args.name.clone().unwrap_or_else(unique_name).into());
    let slots = args.slots.unwrap_or(app.settings.slots);
    let stop = stop::on_signal();
    let Some(client) = register(app, args, client, &id, &stop).await? else {
        return Ok(Exit::Done);
    };
    let logs = Arc::new(ShippedLogs::start(Arc::new(ServerLogs::new(
        client.clone(),
    ))));
    let home = results::Home::Server(Arc::new(ServerBodies::new(client.clone())));
    let bodies = Arc::new(results::Stores::open(&app.settings.storage, home)?);
    let spills_to = hiring::spills_to(&bodies);
    let hired = Hired {
        worker: id.clone(),
        pool: &args.pool,
        kinds: Some(kinds(app, args)),
        slots,
        allow_env: &args.allow_env,
        bodies,
        logs: logs.clone(),
        reach: Reach {
            allow_private: false,
            own: addresses(address.servers.iter().map(String::as_str)).await,
        },
    };
    let pool = &args.pool;
    app.out
        .note(&format!("started worker {id}   pool {pool}, {slots} slots"));
    app.out.note(&spills_to);
    let worker = Worker::new(hired.config(app), Arc::new(Remote::new(client)));
    let end = worker.run(stop).await;
    logs.close().await;
    if end == WorkEnd::Replaced {
        let message = format!("stopped: another process registered as worker `{id}`");
        let problem = Problem::new(Exit::NotAllowed, "SESSION_MISMATCH", message);
        return Err(problem.help("use a unique --name for each worker, or omit --name"));
    }
    app.out
        .note("stopped; unfinished work was returned to the queue");
    Ok(Exit::Done)
}

fn kinds(app: &App, args: &WorkerArgs) -> Vec<Name> {
    if args.kinds.is_empty() {
        return hiring::every_kind(app);
    }
    let kinds = args.kinds.iter();
    kinds.map(|kind| Name::from(kind.trim())).collect()
}

/// Registers the worker and returns a client that sends its session secret; `None` if a signal stops it first. Retries
/// while the server is unreachable, and up to `NAME_WAIT` while the name belongs to another session.
async fn register(
    app: &App,
    args: &WorkerArgs,
    client: Client,
    worker: &WorkerId,
    stop: &CancellationToken,
) -> Result<Option<Client>, Problem> {
    let request = SessionRequest {
        heartbeat: HeartbeatRequest {
            worker: worker.clone(),
            holds: Vec::new(),
            pool: Some(Name::from(args.pool.as_str())),
            slots: Some(args.slots.unwrap_or(app.settings.slots)),
        },
        session_secret: true,
    };
    let begin = Instant::now();
    let mut has_complained = false;
    loop {
        let answer = client.post("/api/worker/pool/register", &request).await;
        let error = match answer {
            Ok(SessionResponse { session_secret, .. }) => {
                // An older server returns no secret and identifies workers by their access tokens.
                let secret = session_secret.map(|secret| Token::new(&secret));
                return Ok(Some(match secret {
                    Some(secret) => client.with_session(secret),
                    None => client,
                }));
            }
            Err(error) if may_pass(&error, begin) => error,
            Err(error) => return Err(remote::unanswered(&error)),
        };
        if !std::mem::replace(&mut has_complained, true) {
            let problem = remote::unanswered(&error);
            app.out.note(&format!("{}; retrying", problem.message));
        }
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            () = stop.cancelled() => return Ok(None),
        }
    }
}

fn may_pass(error: &CallError, begin: Instant) -> bool {
    let is_name_in_use = error.code() == Some("WORKER_NAME_IN_USE");
    error.is_passing() || (is_name_in_use && begin.elapsed() < NAME_WAIT)
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
