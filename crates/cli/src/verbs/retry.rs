//! `noetl retry`: retries the failed steps of a run.

use crate::app::{App, Ended};
use crate::args::RetryArgs;
use crate::drive;
use crate::find;
use crate::runs::{self, Begin};

/// Retries a run and follows it.
pub(crate) async fn retry(app: &App, args: &RetryArgs) -> Ended {
    let runs = runs::existing(app)?;
    let row = find::run(&*runs, &args.id).await?;
    let begin = Begin::Retry(row, args.version);
    drive::begin(app, &*runs, begin, &args.driving).await
}
