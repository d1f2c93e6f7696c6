//! `noetl retry`: retries the failed steps of a run.

use crate::app::{App, VerbResult};
use crate::args::RetryArgs;
use crate::find;
use crate::follow;
use crate::runs::{self, StartRequest};

/// Retries a run and follows it.
pub(crate) async fn retry(app: &App, args: &RetryArgs) -> VerbResult {
    let backend = runs::open_existing(app)?;
    let row = find::find_run(&*backend, &args.id).await?;
    let request = StartRequest::Retry(row, args.version);
    follow::start_and_follow(app, &*backend, request, &args.drive_args).await
}
