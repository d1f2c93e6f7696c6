//! The settings of `noetl serve` that the API shows, without passwords.

use std::time::Duration;

use model::userinfo::without_userinfo;
use postgres::Connector;
use server::api::SystemConfig;
use wire::api::StoreBackend;

use crate::app::App;
use crate::control_plane::{StoreLocation, store_location};

/// Describes this process. `result_location` is where results over 64 KiB are stored.
pub(crate) fn describe_system(
    app: &App,
    result_location: &str,
    retention: Option<Duration>,
    nats: Option<&str>,
) -> SystemConfig {
    let (backend, location) = match store_location(&app.settings) {
        StoreLocation::Directory(dir) => {
            let dir = dir.canonicalize().unwrap_or(dir);
            (StoreBackend::Sqlite, Some(dir.display().to_string()))
        }
        StoreLocation::Postgres(url) => {
            let connector = Connector::from_url(&url);
            (
                StoreBackend::Postgres,
                connector.ok().map(|connector| connector.target.location()),
            )
        }
    };
    let storage = &app.settings.storage;
    let configured = [
        ("s3", storage.s3.is_some()),
        ("gcs", storage.gcs.is_some()),
        ("nats", storage.nats.is_some()),
        ("shared directory", storage.dir.is_some()),
    ];
    let configured = configured.iter().filter(|(_, is_configured)| *is_configured);
    SystemConfig {
        backend,
        store_location: location,
        result_location: Some(mask_userinfo(result_location)),
        result_stores: configured.map(|(name, _)| (*name).to_owned()).collect(),
        retention,
        nats_address: nats.map(mask_userinfo),
    }
}

fn mask_userinfo(text: &str) -> String {
    without_userinfo(text).unwrap_or_else(|| text.to_owned())
}
