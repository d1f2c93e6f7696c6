//! `noetl retry`: does failed work again, in the same run.

use crate::app::{App, Ended};
use crate::args::RetryArgs;
use crate::find;
use crate::local::{self, Session};
use crate::verbs::resume::{Going, go_on};

/// Retries a run and follows it.
pub(crate) async fn retry(app: &App, args: &RetryArgs) -> Ended {
    let log = local::existing(&app.settings)?;
    let row = find::run(&*log.store, &args.id).await?;
    let session = Session::start(log)?;
    go_on(app, session, row, Going::Retry, &args.driving).await
}
