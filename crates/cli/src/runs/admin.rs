//! Catalog, access tokens and credentials of a local store.

use async_trait::async_trait;
use server::{AccessTokenError, Actor};
use store::CatalogEntry;
use wire::api::{
    AccessTokenEntry, CreateAccessTokenRequest, CreateAccessTokenResponse, CredentialEntry, PlaybookEntry,
    RotateKeyResponse, SetCredentialRequest,
};

use crate::cli_error::{CliError, Exit};
use crate::control_plane::ControlPlane;
use crate::runs::backend::{AdminBackend, CatalogBackend, RegisterOutput};
use crate::runs::local_backend::LocalBackend;

#[async_trait]
impl CatalogBackend for LocalBackend<'_> {
    async fn register(&self, path: &str, text: &str) -> Result<RegisterOutput, CliError> {
        let store = &self.reader.store;
        let before = store.catalog_entry(path, None).await?;
        let entry = store.put_playbook(path, text).await?;
        Ok(RegisterOutput {
            is_new: before.is_none_or(|before| before.version != entry.version),
            path: entry.path.to_string(),
            version: entry.version,
        })
    }

    async fn list_catalog(&self) -> Result<Vec<PlaybookEntry>, CliError> {
        let entries = self.reader.store.catalog().await?;
        Ok(entries.iter().map(|entry| to_entry(entry, None)).collect())
    }

    async fn find_playbook(&self, path: &str, version: Option<u32>) -> Result<Option<PlaybookEntry>, CliError> {
        let entry = self.reader.store.catalog_entry(path, version).await?;
        Ok(entry.map(|entry| to_entry(&entry, Some(entry.text.to_string()))))
    }
}

fn to_entry(entry: &CatalogEntry, content: Option<String>) -> PlaybookEntry {
    PlaybookEntry {
        path: entry.path.to_string(),
        version: entry.version,
        hash: entry.hash.to_string(),
        catalog_id: format!("{}@{}", entry.path, entry.version),
        registered_at: entry.registered_at,
        content,
    }
}

#[async_trait]
impl AdminBackend for LocalBackend<'_> {
    async fn create_token(&self, request: &CreateAccessTokenRequest) -> Result<CreateAccessTokenResponse, CliError> {
        let session = ControlPlane::start(self.reader.clone())?;
        let created = session.server.create_access_token(request, local_actor()).await;
        session.stop().await;
        created.map_err(token_error)
    }

    async fn list_tokens(&self) -> Result<Vec<AccessTokenEntry>, CliError> {
        let session = ControlPlane::start(self.reader.clone())?;
        let tokens = session.server.access_tokens().await;
        session.stop().await;
        tokens.map_err(token_error)
    }

    async fn revoke_token(&self, id: &str) -> Result<(), CliError> {
        let session = ControlPlane::start(self.reader.clone())?;
        let revoked = session.server.revoke_access_token(id, local_actor()).await;
        session.stop().await;
        revoked.map_err(token_error)
    }

    async fn set_credential(&self, request: &SetCredentialRequest) -> Result<CredentialEntry, CliError> {
        let session = ControlPlane::start(self.reader.clone())?;
        let set = session.server.set_credential(request, local_actor()).await;
        session.stop().await;
        Ok(set?)
    }

    async fn list_credentials(&self) -> Result<Vec<CredentialEntry>, CliError> {
        let session = ControlPlane::start(self.reader.clone())?;
        let credentials = session.server.credentials().await;
        session.stop().await;
        Ok(credentials?)
    }

    async fn remove_credential(&self, name: &str) -> Result<(), CliError> {
        let session = ControlPlane::start(self.reader.clone())?;
        let removed = session.server.remove_credential(name, local_actor()).await;
        session.stop().await;
        Ok(removed?)
    }

    async fn rotate_key(&self) -> Result<RotateKeyResponse, CliError> {
        let session = ControlPlane::start(self.reader.clone())?;
        let rotated = session.server.rotate_master_key(local_actor()).await;
        session.stop().await;
        Ok(rotated?)
    }
}

/// The actor of local changes: a user who can write the store files has all permissions.
fn local_actor() -> Actor {
    Actor {
        name: "the store's owner".to_owned(),
        source: None,
    }
}

fn token_error(error: AccessTokenError) -> CliError {
    match error {
        AccessTokenError::InvalidName | AccessTokenError::InvalidExpiry => CliError::usage(error.to_string()),
        AccessTokenError::NotFound(_) => CliError::new(Exit::NotFound, "TOKEN_NOT_FOUND", error.to_string())
            .help("list tokens with `noetl token list`"),
        AccessTokenError::Store(error) => error.into(),
    }
}
