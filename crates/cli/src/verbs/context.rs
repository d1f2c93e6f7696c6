//! `noetl context`: manages named servers and selects the current one.

use serde_json::{Value, json};

use crate::app::{App, VerbResult};
use crate::args::ContextVerb;
use crate::cli_error::{CliError, Exit, without_userinfo};
use crate::config::{Contexts, LOCAL_CONTEXT, ServerContext};
use crate::inputs;
use crate::render::table;

/// Runs a `context` subcommand.
pub(crate) fn context(app: &App, verb: &ContextVerb) -> VerbResult {
    let mut contexts = Contexts::load(&app.environment)?;
    match verb {
        ContextVerb::Add { name } => add_context(app, &mut contexts, name)?,
        ContextVerb::Use { name } => use_context(&mut contexts, name)?,
        ContextVerb::Rm { name } => {
            if contexts.contexts.remove(name).is_none() {
                return Err(contexts.unknown_context_error(name));
            }
            contexts.current = contexts.current.filter(|current| current != name);
        }
        ContextVerb::List => return Ok(list_contexts(app, &contexts)),
        ContextVerb::Show => return Ok(show_context(app)),
    }
    contexts.save(&app.environment)?;
    let current = contexts.current.as_deref().unwrap_or(LOCAL_CONTEXT);
    app.output.info(&format!("current context: {current}"));
    Ok(Exit::Done)
}

fn add_context(app: &App, contexts: &mut Contexts, name: &str) -> Result<(), CliError> {
    let is_name = |name: &str| !name.is_empty() && name != LOCAL_CONTEXT && !name.contains(char::is_control);
    if !is_name(name) {
        return Err(CliError::usage(format!("invalid context name `{name}`")));
    }
    let address = app.settings.server.as_ref();
    let address = address.filter(|_| app.settings.has_server_flag);
    let address = address.ok_or_else(|| CliError::usage("no server specified: pass --server URL"))?;
    // Rejects an invalid address now, not at first use.
    wire::Client::new(&address.servers, None)?;
    let (token, token_file) = match &app.settings.token_file {
        None => (None, None),
        Some(file) if file.as_os_str() == "-" => {
            let text = String::from_utf8_lossy(&inputs::read_file("-")?).trim().to_owned();
            if text.is_empty() {
                return Err(CliError::usage("standard input contains no token"));
            }
            (Some(text), None)
        }
        Some(file) => {
            let absolute = std::path::absolute(file);
            let name = file.display().to_string();
            let absolute = absolute.map_err(|error| CliError::read_error(&name, &error))?;
            (None, Some(absolute))
        }
    };
    let context = ServerContext {
        servers: address.servers.clone(),
        token,
        token_file,
    };
    contexts.contexts.insert(name.to_owned(), context);
    // The first context becomes the current one.
    if contexts.contexts.len() == 1 {
        contexts.current = Some(name.to_owned());
    }
    Ok(())
}

fn use_context(contexts: &mut Contexts, name: &str) -> Result<(), CliError> {
    contexts.current = match name {
        LOCAL_CONTEXT => None,
        name if contexts.contexts.contains_key(name) => Some(name.to_owned()),
        name => return Err(contexts.unknown_context_error(name)),
    };
    Ok(())
}

fn list_contexts(app: &App, contexts: &Contexts) -> Exit {
    let out = &app.output;
    let current = contexts.current.as_deref();
    if out.is_machine() {
        let row_of = |(name, context): (&String, &ServerContext)| {
            json!({
                "name": name, "servers": redacted_servers(&context.servers), "current": current == Some(name), "token": token_location(context),
            })
        };
        out.print_records(&contexts.contexts.iter().map(row_of).collect::<Vec<_>>());
        return Exit::Done;
    }
    let mark = |is_current: bool| if is_current { "*" } else { "" }.to_owned();
    let mut lines = vec![vec![
        mark(current.is_none()),
        LOCAL_CONTEXT.to_owned(),
        "local store".to_owned(),
        String::new(),
    ]];
    lines.extend(contexts.contexts.iter().map(|(name, context)| {
        let servers = redacted_servers(&context.servers).join(", ");
        vec![
            mark(current == Some(name)),
            name.clone(),
            servers,
            token_location(context),
        ]
    }));
    let headings = ["", "NAME", "SERVER", "TOKEN"];
    out.print_data(&table::render_table(&headings, lines, out.stdout));
    Exit::Done
}

/// Returns where the token of a context is, never the token.
fn token_location(context: &ServerContext) -> String {
    match (&context.token, &context.token_file) {
        (Some(_), _) => "stored".to_owned(),
        (None, Some(file)) => file.display().to_string(),
        (None, None) => String::new(),
    }
}

/// Returns the server URLs without passwords.
fn redacted_servers(servers: &[String]) -> Vec<String> {
    servers.iter().cloned().map(without_userinfo).collect()
}

/// Returns the store path or URL without a password.
fn store_text(app: &App) -> String {
    without_userinfo(app.settings.store.display().to_string())
}

fn show_context(app: &App) -> Exit {
    let out = &app.output;
    let address = app.settings.remote_address();
    if out.is_machine() {
        out.print_json(&match address {
            Some(address) => json!({
                "context": address.context, "servers": redacted_servers(&address.servers), "token": address.token.is_some(),
            }),
            None => json!({ "context": LOCAL_CONTEXT, "servers": Value::Null, "store": store_text(app) }),
        });
        return Exit::Done;
    }
    out.print_data(&match address {
        Some(address) => {
            let name = address
                .context
                .as_deref()
                .map_or_else(String::new, |name| format!("{name}   "));
            let token = if address.token.is_some() {
                "with a token"
            } else {
                "without a token"
            };
            format!("{name}{}   {token}", redacted_servers(&address.servers).join(", "))
        }
        None => format!("{LOCAL_CONTEXT}   store {}", store_text(app)),
    });
    Exit::Done
}
