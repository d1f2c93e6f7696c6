//! `noetl rerun`: starts a new run from an earlier one, optionally from a step.

use model::id::Name;
use model::raw::Raw;
use wire::api::RerunRequest;

use crate::app::{App, Ended};
use crate::args::RerunArgs;
use crate::drive;
use crate::find;
use crate::inputs;
use crate::runs::{self, Begin};

/// Reruns a run and follows the new one.
pub(crate) async fn rerun(app: &App, args: &RerunArgs) -> Ended {
    let payload = inputs::read(&args.values)?;
    let runs = runs::existing(app)?;
    let row = find::run(&*runs, &args.id).await?;
    let request = RerunRequest {
        from_step: args.from.as_deref().map(Name::from),
        from_iteration: args.iteration,
        payload: payload.map(|payload| Raw::of(&payload)),
        version: args.version,
    };
    drive::begin(app, &*runs, Begin::Rerun(row, request), &args.driving).await
}
