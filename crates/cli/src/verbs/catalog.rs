//! `noetl catalog`: lists and prints registered playbooks.

use model::playbook::entry_named;

use crate::app::{App, Ended};
use crate::args::CatalogVerb;
use crate::clock;
use crate::problem::{Exit, Problem};
use crate::render::{human, table};
use crate::runs::{self, Runs};

/// Runs a `catalog` subcommand.
pub(crate) async fn catalog(app: &App, verb: &CatalogVerb) -> Ended {
    let runs = runs::existing(app)?;
    match verb {
        CatalogVerb::List => list(app, &*runs).await,
        CatalogVerb::Get { path } => get(app, &*runs, path).await,
    }
}

async fn list(app: &App, runs: &dyn Runs) -> Ended {
    let (out, now) = (&app.out, clock::now());
    let entries = runs.catalog().await?;
    if out.is_machine() {
        out.records(&entries);
    } else if entries.is_empty() {
        out.note("no playbooks; register one with `noetl register FILE`");
    } else {
        let lines = entries.iter().map(|entry| {
            let ago = human::ago(entry.registered_at, now);
            vec![entry.path.clone(), entry.version.to_string(), ago]
        });
        let headings = ["PATH", "VER", "REGISTERED"];
        out.data(&table::table(&headings, lines.collect(), out.stdout));
    }
    Ok(Exit::Done)
}

async fn get(app: &App, runs: &dyn Runs, name: &str) -> Ended {
    let (path, version) = entry_named(name);
    let entry = runs.find(path, version).await?.ok_or_else(|| {
        let message = format!("playbook `{name}` is not registered");
        Problem::new(Exit::NotFound, "PLAYBOOK_NOT_FOUND", message)
            .help("list registered playbooks with `noetl catalog list`")
    })?;
    if app.out.is_machine() {
        app.out.json(&entry);
    } else {
        app.out.data(&entry.content.unwrap_or_default());
    }
    Ok(Exit::Done)
}
