//! `noetl worker`: works for a server elsewhere until it is stopped.

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

/// How long the worker waits before it tries a server again that cannot be reached at the start.
const AGAIN: Duration = Duration::from_secs(1);
/// How long the worker waits for its name: the session of a worker that was killed ends within 15 s.
const NAME_WAIT: Duration = Duration::from_secs(20);

/// Works until it is stopped.
pub(crate) async fn worker(app: &App, args: &WorkerArgs) -> Ended {
    let address = app.settings.server.as_ref().ok_or_else(|| {
        Problem::usage("no server is named: give --server URL").help(
            "NOETL_SERVER and the context in use (`noetl context add NAME --server URL`) name one too",
        )
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
        .note(&format!("working   {id}   pool {pool}, {slots} slots"));
    app.out.note(&format!("results   {spills_to}"));
    let worker = Worker::new(hired.config(app), Arc::new(Remote::new(client)));
    let end = worker.run(stop).await;
    logs.close().await;
    if end == WorkEnd::Replaced {
        let message = format!("stopped: another process registered as worker `{id}`");
        let problem = Problem::new(Exit::NotAllowed, "SESSION_MISMATCH", message);
        return Err(problem.help("give each worker a --name of its own, or none"));
    }
    app.out
        .note("stopped; what was not done is offered to others");
    Ok(Exit::Done)
}

fn kinds(app: &App, args: &WorkerArgs) -> Vec<Name> {
    if args.kinds.is_empty() {
        return hiring::every_kind(app);
    }
    let kinds = args.kinds.iter();
    kinds.map(|kind| Name::from(kind.trim())).collect()
}

/// Registers the worker, and gives the client that sends its session secret; none if it is stopped meanwhile. A server
/// that cannot be reached is waited for, and so is a name whose last holder was killed a moment ago with another token.
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
                // An older server gives none, and tells workers apart by their access tokens.
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
            app.out.note(&format!("{}; trying again", problem.message));
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

/// A name that no other life of any worker has.
fn unique_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = match host.trim() {
        "" => "worker",
        host => host,
    };
    let chance = rand::random::<u32>();
    format!("{host}-{}-{chance:08x}", std::process::id())
}
