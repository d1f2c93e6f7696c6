//! `noetl open`: opens the web client in a browser, at a run if one is named.

use std::process::{Command, Stdio};

use serde_json::json;

use crate::app::{App, VerbResult};
use crate::args::{DEFAULT_LISTEN, OpenArgs};
use crate::cli_error::{CliError, Exit};
use crate::config::variables;
use crate::find;
use crate::runs;

/// Programs that open a URL in the user's browser, in the order in which they are tried after `$BROWSER`.
const OPENERS: [&str; 3] = ["xdg-open", "open", "wslview"];

/// Opens the web client.
pub(crate) async fn open(app: &App, args: &OpenArgs) -> VerbResult {
    let server = find_server(app).await?;
    let url = match &args.id {
        None => format!("{server}/"),
        Some(id) => {
            let backend = runs::open_existing(app)?;
            let row = find::find_run(&*backend, id).await?;
            format!("{server}/runs/{}", row.id)
        }
    };
    if app.output.is_machine() {
        app.output.print_json(&json!({ "url": url }));
    } else {
        app.output.print_data(&url);
    }
    if !args.print && !start_browser(app, &url) {
        app.output
            .info("cannot start a browser; open the URL above, or set BROWSER to a program that opens URLs");
    }
    Ok(Exit::Done)
}

/// Returns the address of the server that has the runs: the selected one, or one at the default address.
async fn find_server(app: &App) -> Result<String, CliError> {
    if let Some(address) = app.settings.remote_address() {
        let server = address.servers.first().expect("a server address has a URL");
        return Ok(server.trim_end_matches('/').to_owned());
    }
    let server = format!("http://{DEFAULT_LISTEN}");
    let is_running = match wire::Client::new(std::slice::from_ref(&server), None) {
        Ok(client) => client.get::<serde_json::Value>("/healthz").await.is_ok(),
        Err(_) => false,
    };
    if is_running {
        return Ok(server);
    }
    let message = format!("no server is selected, and none is running at {server}");
    Err(CliError::new(Exit::Unreachable, "SERVER_NOT_SELECTED", message)
        .help("start one with `noetl serve`, or select one with `noetl context use NAME` or --server URL"))
}

/// Starts the first browser that is found; returns whether there is one.
fn start_browser(app: &App, url: &str) -> bool {
    let own = app.environment.get(variables::BROWSER).into_iter();
    let programs = own.chain(OPENERS).filter_map(|name| app.environment.find_program(name));
    let mut started = programs.map(|program| {
        Command::new(program)
            .arg(url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    });
    started.any(|child| child.is_ok())
}
