//! Credentials and shared keychain entries: set, list and remove them; and secrets for workers.

use std::time::Duration;

use axum::extract::State;
use language::playbook::credential_types;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use wire::Transport as _;
use wire::api::{
    CredentialEntry, CredentialField, CredentialList, CredentialType, CredentialTypeList, KeychainEntryStatus,
    RotateKeyResponse, SecretsRequest, SecretsResponse, SetCredentialRequest, SetKeychainEntryRequest,
};

use crate::api::access::{Administer, AuditedAdmin, Authorized, Work};
use crate::api::error::{ApiError, ErrorResponses};
use crate::api::extract::{JsonBody, OptionalJsonBody, PathParam, PathParamPair};
use crate::api::state::ApiState;
use crate::api::{ApiResult, Json};
use crate::keychain::SharedEntry;

/// Longest lifetime of an entry that expires: a hundred years.
const EXPIRES_MAX_S: u64 = 100 * 366 * 24 * 3_600;

/// Set a credential. If the name exists, a new version is created.
#[utoipa::path(post, path = "/api/credentials", tag = "credentials", request_body = SetCredentialRequest,
    responses((status = 200, description = "the credential is stored, encrypted", body = CredentialEntry), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("admin"))))]
pub(crate) async fn set(
    State(api): State<ApiState>,
    AuditedAdmin(actor): AuditedAdmin,
    JsonBody(request): JsonBody<SetCredentialRequest>,
) -> ApiResult<CredentialEntry> {
    Ok(Json(api.server.set_credential(&request, actor).await?))
}

/// List credential types with their usual fields.
///
/// The types are those of the built-in tasks; a credential may have any other type, with any fields.
#[utoipa::path(get, path = "/api/credential-types", tag = "credentials",
    responses((status = 200, description = "the types", body = CredentialTypeList), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("admin"))))]
pub(crate) async fn types(_caller: Authorized<Administer>) -> ApiResult<CredentialTypeList> {
    let to_field = |field: &credential_types::CredentialFieldSpec| CredentialField {
        name: field.name.to_owned(),
        description: field.description.to_owned(),
        is_secret: field.is_secret(),
        is_required: field.is_required,
        is_multiline: field.is_multiline,
    };
    let types = credential_types::CREDENTIAL_TYPES
        .iter()
        .map(|credential| CredentialType {
            name: credential.name.to_owned(),
            description: credential.description.to_owned(),
            fields: credential.fields.iter().map(to_field).collect(),
        });
    Ok(Json(CredentialTypeList { types: types.collect() }))
}

/// List credentials with the playbooks that use them, without their values.
///
/// Reads the latest version of each playbook, at most 10,000, and parses those that this server has not parsed for this
/// list before, at most 200 for each request.
#[utoipa::path(get, path = "/api/credentials", tag = "credentials",
    responses((status = 200, description = "the credentials", body = CredentialList), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("admin"))))]
pub(crate) async fn list(State(api): State<ApiState>, _caller: Authorized<Administer>) -> ApiResult<CredentialList> {
    Ok(Json(api.server.credentials_with_uses().await?))
}

/// Read a credential, without its values. `GET /api/credentials` also has the playbooks that use it.
#[utoipa::path(get, path = "/api/credentials/{name}", tag = "credentials", params(("name" = String, Path)),
    responses((status = 200, description = "the credential", body = CredentialEntry), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("admin"))))]
pub(crate) async fn show(
    State(api): State<ApiState>,
    _caller: Authorized<Administer>,
    PathParam(name): PathParam,
) -> ApiResult<CredentialEntry> {
    Ok(Json(api.server.credential(&name).await?))
}

/// Remove a credential. Workers that cached it drop it within a minute.
#[utoipa::path(delete, path = "/api/credentials/{name}", tag = "credentials", params(("name" = String, Path)),
    responses((status = 200, description = "the credential is removed", body = Object), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("admin"))))]
pub(crate) async fn remove(
    State(api): State<ApiState>,
    AuditedAdmin(actor): AuditedAdmin,
    PathParam(name): PathParam,
) -> ApiResult<Value> {
    api.server.remove_credential(&name, actor).await?;
    Ok(Json(json!({ "name": name, "removed": true })))
}

/// Re-encrypt all values with the current master key. A local store generates a new key first.
#[utoipa::path(post, path = "/api/keychain/rotate-key", tag = "credentials",
    responses((status = 200, description = "numbers of re-encrypted and remaining values", body = RotateKeyResponse), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("admin"))))]
pub(crate) async fn rotate(
    State(api): State<ApiState>,
    AuditedAdmin(actor): AuditedAdmin,
    OptionalJsonBody(_): OptionalJsonBody<IgnoredAny>,
) -> ApiResult<RotateKeyResponse> {
    Ok(Json(api.server.rotate_master_key(actor).await?))
}

/// Catalog path of the playbook that a catalog ID names.
async fn find_playbook_path(api: &ApiState, id: &str) -> Result<String, ApiError> {
    let (path, _) = language::playbook::parse_catalog_id(id);
    if let Some(entry) = api.store().catalog_entry(path, None).await? {
        Ok(entry.path.to_string())
    } else {
        let detail = format!("playbook `{path}` is not in the catalog");
        Err(ApiError::not_found("PLAYBOOK_NOT_FOUND", detail))
    }
}

/// Read the state of a keychain entry that all runs of a playbook share, without its value.
#[utoipa::path(get, path = "/api/keychain/{catalog_id}/{name}", tag = "credentials",
    params(("catalog_id" = String, Path), ("name" = String, Path)),
    responses((status = 200, description = "whether it is resolved, and until when", body = KeychainEntryStatus), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("admin"))))]
pub(crate) async fn keychain(
    State(api): State<ApiState>,
    _caller: Authorized<Administer>,
    PathParamPair(id, name): PathParamPair,
) -> ApiResult<KeychainEntryStatus> {
    let path = find_playbook_path(&api, &id).await?;
    let entry = SharedEntry {
        path: &path,
        name: &name,
    };
    Ok(Json(api.server.keychain_entry_status(entry).await?))
}

/// Set a keychain entry for all runs of a playbook.
#[utoipa::path(post, path = "/api/keychain/{catalog_id}/{name}", tag = "credentials", request_body = SetKeychainEntryRequest,
    params(("catalog_id" = String, Path), ("name" = String, Path)),
    responses((status = 200, description = "the entry is stored, encrypted", body = KeychainEntryStatus), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("admin"))))]
pub(crate) async fn set_keychain(
    State(api): State<ApiState>,
    AuditedAdmin(actor): AuditedAdmin,
    PathParamPair(id, name): PathParamPair,
    JsonBody(request): JsonBody<SetKeychainEntryRequest>,
) -> ApiResult<KeychainEntryStatus> {
    let is_possible = |s: u64| (1..=EXPIRES_MAX_S).contains(&s);
    if !request.expires_in_s.is_none_or(is_possible) {
        let detail = format!("invalid `expires_in_s`: expected a number from 1 to {EXPIRES_MAX_S}");
        return Err(ApiError::invalid("BODY_INVALID", detail));
    }
    let path = find_playbook_path(&api, &id).await?;
    let entry = SharedEntry {
        path: &path,
        name: &name,
    };
    let ttl = request.expires_in_s.map(Duration::from_secs);
    let status = api.server.set_keychain_entry(entry, &request.data, ttl, actor).await?;
    Ok(Json(status))
}

/// Remove a keychain entry that all runs of a playbook share; it is resolved again on next use.
#[utoipa::path(delete, path = "/api/keychain/{catalog_id}/{name}", tag = "credentials",
    params(("catalog_id" = String, Path), ("name" = String, Path)),
    responses((status = 200, description = "the entry is removed", body = Object), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("admin"))))]
pub(crate) async fn forget_keychain(
    State(api): State<ApiState>,
    AuditedAdmin(actor): AuditedAdmin,
    PathParamPair(id, name): PathParamPair,
) -> ApiResult<Value> {
    let path = find_playbook_path(&api, &id).await?;
    let entry = SharedEntry {
        path: &path,
        name: &name,
    };
    let removed = api.server.forget_keychain_entry(entry, actor).await?;
    Ok(Json(json!({ "name": name, "removed": removed })))
}

/// Resolve the secrets of a command's step, for the worker that holds the command.
#[utoipa::path(post, path = "/api/commands/secrets", tag = "workers", request_body = SecretsRequest,
    responses((status = 200, description = "the values, in the order of the names", body = SecretsResponse), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("worker"))))]
pub(crate) async fn secrets(
    State(api): State<ApiState>,
    caller: Authorized<Work>,
    JsonBody(request): JsonBody<SecretsRequest>,
) -> ApiResult<SecretsResponse> {
    let claim = model::command::ClaimId {
        command: request.command,
        lease_epoch: request.lease_epoch,
    };
    let lease_epoch = api.check_lease(&caller.principal, &request.worker, claim).await?;
    let request = SecretsRequest { lease_epoch, ..request };
    let secrets = api.transport().secrets(&request).await?;
    Ok(Json(SecretsResponse::from_secrets(&secrets)))
}
