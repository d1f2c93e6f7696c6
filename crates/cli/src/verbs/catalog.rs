//! `noetl catalog`: lists and prints registered playbooks.

use language::playbook::parse_catalog_id;

use crate::app::{App, VerbResult};
use crate::args::CatalogVerb;
use crate::cli_error::{CliError, Exit};
use crate::clock;
use crate::render::human;
use crate::render::table::{ListFormat, print_list};
use crate::runs::{self, RunBackend};

/// Runs a `catalog` subcommand.
pub(crate) async fn catalog(app: &App, verb: &CatalogVerb) -> VerbResult {
    let backend = runs::open_existing(app)?;
    match verb {
        CatalogVerb::List => list_playbooks(app, &*backend).await,
        CatalogVerb::Get { path } => print_playbook(app, &*backend, path).await,
    }
}

async fn list_playbooks(app: &App, backend: &dyn RunBackend) -> VerbResult {
    let now = clock::now();
    let format = ListFormat {
        headings: &["PATH", "VER", "REGISTERED"],
        empty_message: "no playbooks; register one with `noetl register FILE`",
    };
    print_list(&app.output, &backend.list_catalog().await?, &format, |entry| {
        let ago = human::format_age(entry.registered_at, now);
        vec![entry.path.clone(), entry.version.to_string(), ago]
    });
    Ok(Exit::Done)
}

async fn print_playbook(app: &App, backend: &dyn RunBackend, name: &str) -> VerbResult {
    let (path, version) = parse_catalog_id(name);
    let entry = backend.find_playbook(path, version).await?.ok_or_else(|| {
        let message = format!("playbook `{name}` is not registered");
        CliError::new(Exit::NotFound, "PLAYBOOK_NOT_FOUND", message)
            .help("list registered playbooks with `noetl catalog list`")
    })?;
    if app.output.is_machine() {
        app.output.print_json(&entry);
    } else {
        app.output.print_data(&entry.content.unwrap_or_default());
    }
    Ok(Exit::Done)
}
