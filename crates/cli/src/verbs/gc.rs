//! `noetl gc`: deletes expired results from the local store.

use serde_json::json;
use server::Collection;

use crate::app::{App, Ended};
use crate::args::GcArgs;
use crate::local;
use crate::problem::{Exit, Problem};
use crate::render::human;

/// Deletes expired results, or counts them with `--dry-run`.
pub(crate) async fn gc(app: &App, args: &GcArgs) -> Ended {
    if app.settings.remote().is_some() {
        let message =
            "`noetl gc` needs a local store; a server deletes expired results itself, every hour";
        return Err(Problem::new(Exit::Usage, "GC_NEEDS_STORE", message)
            .help("set the retention with `noetl serve --retention`, or specify a local store with --store DIR"));
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
        "would be deleted"
    } else {
        "deleted"
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
