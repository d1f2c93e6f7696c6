//! Credentials and shared keychain entries: set, list and remove them; and secrets for workers.

use std::time::Duration;

use axum::extract::State;
use axum::http::request::Parts;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use wire::api::{
    CredentialEntry, CredentialList, CredentialRequest, KeyRotated, KeychainRequest, KeychainState,
    SecretsAnswer, SecretsRequest,
};
use wire::{SecretsAsk, Transport as _};

use crate::api::access::{Administer, Authorized, Work, source};
use crate::api::error::{ApiError, Failures};
use crate::api::extract::{Body, MaybeBody, Pair, Segment};
use crate::api::state::Api;
use crate::api::{Answer, Json};
use crate::keychain::Global;
use crate::tokens::Actor;

/// Longest lifetime of an entry that expires: a hundred years.
const EXPIRES_MAX_S: u64 = 100 * 366 * 24 * 3_600;

fn actor(may: &Authorized<Administer>, parts: &Parts) -> Actor {
    Actor {
        name: may.principal.name(),
        source: source(parts),
    }
}

/// Set a credential. If the name exists, a new version is created.
#[utoipa::path(post, path = "/api/credentials", tag = "credentials", request_body = CredentialRequest,
    responses((status = 200, description = "the credential is stored, encrypted", body = CredentialEntry), Failures),
    security(("token" = [])), extensions(("x-role" = json!("admin"))))]
pub(crate) async fn set(
    State(api): State<Api>,
    may: Authorized<Administer>,
    parts: Parts,
    Body(request): Body<CredentialRequest>,
) -> Answer<CredentialEntry> {
    let set = api.server.set_credential(&request, actor(&may, &parts));
    Ok(Json(set.await?))
}

/// List credentials, without their values.
#[utoipa::path(get, path = "/api/credentials", tag = "credentials",
    responses((status = 200, description = "the credentials", body = CredentialList), Failures),
    security(("token" = [])), extensions(("x-role" = json!("admin"))))]
pub(crate) async fn list(
    State(api): State<Api>,
    _may: Authorized<Administer>,
) -> Answer<CredentialList> {
    let credentials = api.server.credentials().await?;
    Ok(Json(CredentialList { credentials }))
}

/// Read a credential, without its values.
#[utoipa::path(get, path = "/api/credentials/{name}", tag = "credentials", params(("name" = String, Path)),
    responses((status = 200, description = "the credential", body = CredentialEntry), Failures),
    security(("token" = [])), extensions(("x-role" = json!("admin"))))]
pub(crate) async fn show(
    State(api): State<Api>,
    _may: Authorized<Administer>,
    Segment(name): Segment,
) -> Answer<CredentialEntry> {
    Ok(Json(api.server.credential(&name).await?))
}

/// Remove a credential. Workers that cached it drop it within a minute.
#[utoipa::path(delete, path = "/api/credentials/{name}", tag = "credentials", params(("name" = String, Path)),
    responses((status = 200, description = "the credential is removed", body = Object), Failures),
    security(("token" = [])), extensions(("x-role" = json!("admin"))))]
pub(crate) async fn remove(
    State(api): State<Api>,
    may: Authorized<Administer>,
    parts: Parts,
    Segment(name): Segment,
) -> Answer<Value> {
    let removed = api.server.remove_credential(&name, actor(&may, &parts));
    removed.await?;
    Ok(Json(json!({ "name": name, "removed": true })))
}

/// Re-encrypt all values with the current master key. A local store generates a new key first.
#[utoipa::path(post, path = "/api/keychain/rotate-key", tag = "credentials",
    responses((status = 200, description = "numbers of re-encrypted and remaining values", body = KeyRotated), Failures),
    security(("token" = [])), extensions(("x-role" = json!("admin"))))]
pub(crate) async fn rotate(
    State(api): State<Api>,
    may: Authorized<Administer>,
    parts: Parts,
    MaybeBody(_): MaybeBody<IgnoredAny>,
) -> Answer<KeyRotated> {
    let rotated = api.server.rotate_master_key(actor(&may, &parts)).await?;
    Ok(Json(KeyRotated {
        key_id: rotated.key_id,
        rewrapped: rotated.rewrapped,
        remaining: rotated.remaining,
    }))
}

/// Catalog path of the playbook that a catalog ID names.
async fn path_of(api: &Api, id: &str) -> Result<String, ApiError> {
    let (path, _) = model::playbook::entry_named(id);
    if let Some(entry) = api.store().latest(path, None).await? {
        Ok(entry.path.to_string())
    } else {
        let detail = format!("playbook `{path}` is not in the catalog");
        Err(ApiError::not_found("PLAYBOOK_NOT_FOUND", detail))
    }
}

/// Read the state of a keychain entry that all runs of a playbook share, without its value.
#[utoipa::path(get, path = "/api/keychain/{catalog_id}/{name}", tag = "credentials",
    params(("catalog_id" = String, Path), ("name" = String, Path)),
    responses((status = 200, description = "whether it is resolved, and until when", body = KeychainState), Failures),
    security(("token" = [])), extensions(("x-role" = json!("admin"))))]
pub(crate) async fn keychain(
    State(api): State<Api>,
    _may: Authorized<Administer>,
    Pair(id, name): Pair,
) -> Answer<KeychainState> {
    let path = path_of(&api, &id).await?;
    let entry = Global {
        path: &path,
        name: &name,
    };
    Ok(Json(api.server.keychain_state(entry).await?))
}

/// Set a keychain entry for all runs of a playbook.
#[utoipa::path(post, path = "/api/keychain/{catalog_id}/{name}", tag = "credentials", request_body = KeychainRequest,
    params(("catalog_id" = String, Path), ("name" = String, Path)),
    responses((status = 200, description = "the entry is stored, encrypted", body = KeychainState), Failures),
    security(("token" = [])), extensions(("x-role" = json!("admin"))))]
pub(crate) async fn set_keychain(
    State(api): State<Api>,
    may: Authorized<Administer>,
    parts: Parts,
    Pair(id, name): Pair,
    Body(request): Body<KeychainRequest>,
) -> Answer<KeychainState> {
    let is_possible = |s: u64| (1..=EXPIRES_MAX_S).contains(&s);
    if !request.expires_in_s.is_none_or(is_possible) {
        let detail = format!("invalid `expires_in_s`: expected a number from 1 to {EXPIRES_MAX_S}");
        return Err(ApiError::invalid("BODY_INVALID", detail));
    }
    let path = path_of(&api, &id).await?;
    let entry = Global {
        path: &path,
        name: &name,
    };
    let life = request.expires_in_s.map(Duration::from_secs);
    let actor = actor(&may, &parts);
    let set = api.server.set_keychain(entry, &request.data, life, actor);
    Ok(Json(set.await?))
}

/// Remove a keychain entry that all runs of a playbook share; it is resolved again on next use.
#[utoipa::path(delete, path = "/api/keychain/{catalog_id}/{name}", tag = "credentials",
    params(("catalog_id" = String, Path), ("name" = String, Path)),
    responses((status = 200, description = "the entry is removed", body = Object), Failures),
    security(("token" = [])), extensions(("x-role" = json!("admin"))))]
pub(crate) async fn forget_keychain(
    State(api): State<Api>,
    may: Authorized<Administer>,
    parts: Parts,
    Pair(id, name): Pair,
) -> Answer<Value> {
    let path = path_of(&api, &id).await?;
    let entry = Global {
        path: &path,
        name: &name,
    };
    let removed = api
        .server
        .forget_keychain(entry, actor(&may, &parts))
        .await?;
    Ok(Json(json!({ "name": name, "removed": removed })))
}

/// Resolve the secrets of a command's step, for the worker that holds the command.
#[utoipa::path(post, path = "/api/commands/secrets", tag = "workers", request_body = SecretsRequest,
    responses((status = 200, description = "the values, in the order of the names", body = SecretsAnswer), Failures),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn secrets(
    State(api): State<Api>,
    may: Authorized<Work>,
    Body(request): Body<SecretsRequest>,
) -> Answer<SecretsAnswer> {
    let held = wire::Held {
        command: request.command,
        lease_epoch: request.lease_epoch,
    };
    let lease_epoch = api
        .must_open_lease(&may.principal, &request.worker, held)
        .await?;
    let ask = SecretsAsk {
        worker: request.worker,
        command: request.command,
        lease_epoch,
        names: request.names,
    };
    let secrets = api.transport().secrets(&ask).await?;
    Ok(Json(SecretsAnswer::of(&secrets)))
}
