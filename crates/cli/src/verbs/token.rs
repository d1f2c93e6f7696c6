//! `noetl token`: creates, lists and revokes access tokens, on a server or in a local store.

use std::time::Duration;

use model::time::Time;
use wire::api::{Role, TokenEntry, TokenRequest};

use crate::app::{App, Ended};
use crate::args::TokenVerb;
use crate::clock;
use crate::problem::Exit;
use crate::render::{human, table};
use crate::runs::{self, Runs};

/// Runs a `token` subcommand.
pub(crate) async fn token(app: &App, verb: TokenVerb) -> Ended {
    match verb {
        TokenVerb::Create {
            name,
            role,
            expires,
        } => create(app, name, role, expires).await,
        TokenVerb::List => list(app, &*runs::existing(app)?).await,
        TokenVerb::Revoke { id } => {
            runs::existing(app)?.revoke_token(&id).await?;
            app.out
                .note(&format!("{} revoked token {id}", app.out.stderr.tick()));
            Ok(Exit::Done)
        }
    }
}

/// Creates a token. Standard output is only the token, so that `> file` saves it.
async fn create(app: &App, name: String, role: Role, expires: Option<Duration>) -> Ended {
    let request = TokenRequest {
        name,
        role,
        expires_in_s: expires.map(|expires| expires.as_secs()),
    };
    let created = runs::fresh(app)?.create_token(&request).await?;
    if app.out.is_machine() {
        app.out.json(&created);
        return Ok(Exit::Done);
    }
    app.out.data(&created.token);
    let expires = match created.expires_at {
        Some(at) => format!("expires {at}"),
        None => "never expires".to_owned(),
    };
    let (id, name) = (&created.id, &request.name);
    app.out.note(&format!(
        "created {role} token `{name}`, ID {id}, {expires}; save it now, it is not shown again"
    ));
    Ok(Exit::Done)
}

async fn list(app: &App, runs: &dyn Runs) -> Ended {
    let (out, now) = (&app.out, clock::now());
    let tokens = runs.tokens().await?;
    if out.is_machine() {
        out.records(&tokens);
    } else if tokens.is_empty() {
        out.note("no tokens");
    } else {
        let lines = tokens.iter().map(|token| line(token, now)).collect();
        let headings = ["ID", "NAME", "ROLE", "CREATED", "LAST USED", "STATUS"];
        out.data(&table::table(&headings, lines, out.stdout));
    }
    Ok(Exit::Done)
}

fn line(token: &TokenEntry, now: Time) -> Vec<String> {
    let used = token.last_used_at;
    let stands = match (token.revoked_at, token.expires_at) {
        (Some(at), _) => format!("revoked {}", human::ago(at, now)),
        (None, Some(at)) if at <= now => "expired".to_owned(),
        (None, Some(at)) => format!("active until {at}"),
        (None, None) => "active".to_owned(),
    };
    vec![
        token.id.clone(),
        human::tame(&token.name),
        token.role.to_string(),
        human::ago(token.created_at, now),
        used.map_or_else(|| "never".to_owned(), |at| human::ago(at, now)),
        stands,
    ]
}
