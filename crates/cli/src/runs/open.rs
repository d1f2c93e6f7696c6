//! Opens the backend that the settings select.

use crate::app::App;
use crate::cli_error::CliError;
use crate::control_plane;
use crate::remote::RemoteBackend;
use crate::runs::backend::RunBackend;
use crate::runs::local_backend::LocalBackend;

/// Opens the backend for reading; does not create a store.
pub(crate) fn open_existing(app: &App) -> Result<Box<dyn RunBackend + '_>, CliError> {
    open_backend(app, control_plane::open_existing)
}

/// Opens the backend for starting runs; creates the store if it does not exist.
pub(crate) fn open_or_create(app: &App) -> Result<Box<dyn RunBackend + '_>, CliError> {
    open_backend(app, control_plane::open_or_create)
}

fn open_backend(
    app: &App,
    store: impl Fn(&App) -> Result<crate::run_reader::RunReader, CliError>,
) -> Result<Box<dyn RunBackend + '_>, CliError> {
    let settings = &app.settings;
    if settings.is_local && settings.has_server_flag {
        return Err(CliError::usage(
            "--store and --server are mutually exclusive: pass only one of them",
        ));
    }
    match settings.remote_address() {
        Some(address) => Ok(Box::new(RemoteBackend::open(address)?)),
        None => Ok(Box::new(LocalBackend::new(app, store(app)?))),
    }
}
