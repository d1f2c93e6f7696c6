//! `noetl rerun`: starts a new run from an earlier one, optionally from a step, or prints what it would do.

use model::id::Name;
use model::raw::RawJson;
use wire::api::RerunRequest;

use crate::app::{App, VerbResult};
use crate::args::RerunArgs;
use crate::cli_error::Exit;
use crate::find;
use crate::follow;
use crate::inputs;
use crate::render::rerun_preview::render_preview;
use crate::runs::{self, StartRequest};

/// Reruns a run and follows the new one, or prints what the rerun would do.
pub(crate) async fn rerun(app: &App, args: &RerunArgs) -> VerbResult {
    let payload = inputs::read_inputs(&args.values)?;
    let backend = runs::open_existing(app)?;
    let row = find::find_run(&*backend, &args.id).await?;
    let request = RerunRequest {
        from_step: args.from.as_deref().map(Name::from),
        from_iteration: args.iteration,
        payload: payload.map(|payload| RawJson::from_serializable(&payload)),
        version: args.version,
    };
    if args.dry_run {
        let preview = backend.preview_rerun(&row, request).await?;
        if app.output.is_machine() {
            app.output.print_json(&preview);
        } else {
            app.output.print_data(&render_preview(&preview));
        }
        return Ok(Exit::Done);
    }
    follow::start_and_follow(app, &*backend, StartRequest::Rerun(row, request), &args.drive_args).await
}
