//! Which place the settings mean.

use crate::app::App;
use crate::local;
use crate::problem::Problem;
use crate::remote::Elsewhere;
use crate::runs::local::Here;
use crate::runs::place::Runs;

/// The place to read from; a store is not made.
pub(crate) fn existing(app: &App) -> Result<Box<dyn Runs + '_>, Problem> {
    open(app, local::existing)
}

/// The place to begin runs in; a store is made if there is none.
pub(crate) fn fresh(app: &App) -> Result<Box<dyn Runs + '_>, Problem> {
    open(app, local::open)
}

fn open(
    app: &App,
    store: impl Fn(&crate::config::Settings) -> Result<crate::log::Log, Problem>,
) -> Result<Box<dyn Runs + '_>, Problem> {
    let settings = &app.settings;
    if settings.is_local && settings.is_server_flagged {
        return Err(Problem::usage(
            "--store means this machine and --server another: give one of them",
        ));
    }
    match settings.remote() {
        Some(address) => Ok(Box::new(Elsewhere::open(address)?)),
        None => Ok(Box::new(Here::new(app, store(settings)?))),
    }
}
