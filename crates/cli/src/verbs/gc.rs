//! `noetl gc`: deletes expired results from the local store.

use serde_json::json;
use server::GcOptions;

use crate::app::{App, VerbResult};
use crate::args::GcArgs;
use crate::cli_error::{CliError, Exit};
use crate::control_plane;
use crate::render::human;

/// Deletes expired results, or counts them with `--dry-run`.
pub(crate) async fn gc(app: &App, args: &GcArgs) -> VerbResult {
    if app.settings.remote_address().is_some() {
        let message = "`noetl gc` needs a local store; a server deletes expired results itself, every hour";
        return Err(CliError::new(Exit::Usage, "GC_NEEDS_STORE", message)
            .help("set the retention with `noetl serve --retention`, or specify a local store with --store DIR"));
    }
    let log = control_plane::open_existing(app)?;
    let options = GcOptions {
        retention: args.retention.unwrap_or(app.settings.retention),
        is_dry_run: args.dry_run,
    };
    let collected = server::collect_garbage(&*log.store, &*log.bodies, options).await?;
    if app.output.is_machine() {
        app.output.print_json(&json!({
            "bodies": collected.bodies,
            "bytes": collected.bytes,
            "dry_run": args.dry_run,
        }));
        return Ok(Exit::Done);
    }
    let verb = if args.dry_run { "would be deleted" } else { "deleted" };
    app.output.print_data(&format!(
        "{} {verb}, {}\n",
        human::format_counted(usize::try_from(collected.bodies).unwrap_or(usize::MAX), "result"),
        human::format_size(collected.bytes)
    ));
    Ok(Exit::Done)
}
