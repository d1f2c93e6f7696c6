//! Opens the backend that the settings select.

use crate::app::App;
use crate::local;
use crate::problem::Problem;
use crate::remote::Elsewhere;
use crate::runs::local::Here;
use crate::runs::place::Runs;

/// Opens the backend for reading; does not create a store.
pub(crate) fn existing(app: &App) -> Result<Box<dyn Runs + '_>, Problem> {
    open(app, local::existing)
}

/// Opens the backend for starting runs; creates the store if it does not exist.
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
            "--store and --server are mutually exclusive: pass only one of them",
        ));
    }
    match settings.remote() {
        Some(address) => Ok(Box::new(Elsewhere::open(address)?)),
        None => Ok(Box::new(Here::new(app, store(settings)?))),
    }
}
