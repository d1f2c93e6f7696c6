//! `noetl gc`: removes the bodies in this machine's store that nothing needs any more.

use serde_json::json;
use server::Collection;

use crate::app::{App, Ended};
use crate::args::GcArgs;
use crate::local;
use crate::problem::{Exit, Problem};
use crate::render::human;

/// Collects bodies, or counts those that would be.
pub(crate) async fn gc(app: &App, args: &GcArgs) -> Ended {
    if app.settings.remote().is_some() {
        let message = "a server collects the bodies of its store by itself, every hour";
        return Err(Problem::new(Exit::Usage, "GC_NEEDS_STORE", message)
            .help("say how long they are kept with `noetl serve --retention`, or name a store with --store DIR"));
    }
    let log = local::existing(&app.settings)?;
    let how = Collection {
        retention: args.retention.unwrap_or(app.settings.retention),
        is_dry: args.dry_run,
    };
    let collected = server::collect(&*log.store, &*log.bodies, how).await?;
    if app.out.is_machine() {
        app.out.json(&json!({
            "bodies": collected.bodies,
            "bytes": collected.bytes,
            "dry_run": args.dry_run,
        }));
        return Ok(Exit::Done);
    }
    let verb = if args.dry_run {
        "would be removed"
    } else {
        "removed"
    };
    app.out.data(&format!(
        "{} {verb}, {}\n",
        human::counted(
            usize::try_from(collected.bodies).unwrap_or(usize::MAX),
            "result"
        ),
        human::size(collected.bytes)
    ));
    Ok(Exit::Done)
}
