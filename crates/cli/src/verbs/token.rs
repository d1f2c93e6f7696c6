//! `noetl token`: creates, lists and revokes access tokens, on a server or in a local store.

use std::time::Duration;

use model::time::Time;
use wire::api::{AccessTokenEntry, CreateAccessTokenRequest, Role};

use crate::app::{App, VerbResult};
use crate::args::TokenVerb;
use crate::cli_error::Exit;
use crate::clock;
use crate::render::human;
use crate::render::table::{ListFormat, print_list};
use crate::runs::{self, RunBackend};

/// Runs a `token` subcommand.
pub(crate) async fn token(app: &App, verb: TokenVerb) -> VerbResult {
    match verb {
        TokenVerb::Create { name, role, expires } => create_token(app, name, role, expires).await,
        TokenVerb::List => list_tokens(app, &*runs::open_existing(app)?).await,
        TokenVerb::Revoke { id } => {
            runs::open_existing(app)?.revoke_token(&id).await?;
            app.output
                .info(&format!("{} revoked token {id}", app.output.stderr.tick()));
            Ok(Exit::Done)
        }
    }
}

/// Creates a token. Standard output is only the token, so that `> file` saves it.
async fn create_token(app: &App, name: String, role: Role, expires: Option<Duration>) -> VerbResult {
    let request = CreateAccessTokenRequest {
        name,
        role,
        expires_in_s: expires.map(|expires| expires.as_secs()),
    };
    let created = runs::open_or_create(app)?.create_token(&request).await?;
    if app.output.is_machine() {
        app.output.print_json(&created);
        return Ok(Exit::Done);
    }
    app.output.print_data(&created.token);
    let expires = match created.expires_at {
        Some(time) => format!("expires {time}"),
        None => "never expires".to_owned(),
    };
    let (id, name) = (&created.id, &request.name);
    app.output.info(&format!(
        "created {role} token `{name}`, ID {id}, {expires}; save it now, it is not shown again"
    ));
    Ok(Exit::Done)
}

async fn list_tokens(app: &App, backend: &dyn RunBackend) -> VerbResult {
    let now = clock::now();
    let format = ListFormat {
        headings: &["ID", "NAME", "ROLE", "CREATED", "LAST USED", "STATUS"],
        empty_message: "no tokens",
    };
    print_list(&app.output, &backend.list_tokens().await?, &format, |token| {
        token_row(token, now)
    });
    Ok(Exit::Done)
}

fn token_row(token: &AccessTokenEntry, now: Time) -> Vec<String> {
    let used = token.last_used_at;
    let status = match (token.revoked_at, token.expires_at) {
        (Some(time), _) => format!("revoked {}", human::format_age(time, now)),
        (None, Some(time)) if time <= now => "expired".to_owned(),
        (None, Some(time)) => format!("active until {time}"),
        (None, None) => "active".to_owned(),
    };
    vec![
        token.id.clone(),
        human::escape_controls(&token.name),
        token.role.to_string(),
        human::format_age(token.created_at, now),
        used.map_or_else(|| "never".to_owned(), |time| human::format_age(time, now)),
        status,
    ]
}
