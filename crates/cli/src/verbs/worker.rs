//! `noetl worker`: works for a server elsewhere until it is stopped.

use std::sync::Arc;
use std::time::Duration;

use model::id::{Name, WorkerId};
use tokio_util::sync::CancellationToken;
use wire::api::{HeartbeatRequest, ToldAnswer};
use wire::{CallError, Client, Remote};
use worker::{ServerBodies, ServerLogs, ShippedLogs, Worker};

use crate::app::{App, Ended};
use crate::args::WorkerArgs;
use crate::hiring::{self, Hired};
use crate::problem::{Exit, Problem};
use crate::reach::{Reach, addresses};
use crate::remote;
use crate::stop;

/// How long the worker waits before it tries a server again that cannot be reached at the start.
const AGAIN: Duration = Duration::from_secs(1);

/// Works until it is stopped.
pub(crate) async fn worker(app: &App, args: &WorkerArgs) -> Ended {
    let address = app.settings.server.as_ref().ok_or_else(|| {
        Problem::usage("no server is named: give --server URL").help(
            "NOETL_SERVER and the context in use (`noetl context add NAME --server URL`) name one too",
        )
    })?;
    let client = remote::client(address)?;
    let id = WorkerId(name().into());
    let slots = args.slots.unwrap_or(app.settings.slots);
    let stop = stop::on_signal();
    if !introduce(app, args, &client, &id, &stop).await? {
        return Ok(Exit::Done);
    }
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
    worker.run(stop).await;
    logs.close().await;
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

/// Says hello. A server that cannot be reached is waited for; one that says no ends the worker.
async fn introduce(
    app: &App,
    args: &WorkerArgs,
    client: &Client,
    worker: &WorkerId,
    stop: &CancellationToken,
) -> Result<bool, Problem> {
    let hello = HeartbeatRequest {
        worker: worker.clone(),
        holds: Vec::new(),
        pool: Some(Name::from(args.pool.as_str())),
        slots: Some(args.slots.unwrap_or(app.settings.slots)),
    };
    let mut has_complained = false;
    loop {
        let answer: Result<ToldAnswer, CallError> =
            client.post("/api/worker/pool/register", &hello).await;
        let error = match answer {
            Ok(_) => return Ok(true),
            Err(error) if error.is_passing() => error,
            Err(error) => return Err(remote::unanswered(&error)),
        };
        if !std::mem::replace(&mut has_complained, true) {
            let problem = remote::unanswered(&error);
            app.out.note(&format!("{}; trying again", problem.message));
        }
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            () = stop.cancelled() => return Ok(false),
        }
    }
}

/// A name that no other life of any worker has.
fn name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = match host.trim() {
        "" => "worker",
        host => host,
    };
    let chance = rand::random::<u32>();
    format!("{host}-{}-{chance:08x}", std::process::id())
}
