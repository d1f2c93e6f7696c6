//! Catalog, access tokens and credentials of a server.

use async_trait::async_trait;
use serde_json::{Value, json};
use wire::api::{
    AccessTokenEntry, AccessTokenList, CatalogEntryRequest, CatalogList, CreateAccessTokenRequest,
    CreateAccessTokenResponse, CredentialEntry, CredentialList, PlaybookEntry, RegisterRequest, RegisterResponse,
    RotateKeyResponse, SetCredentialRequest,
};

use crate::cli_error::CliError;
use crate::remote::paths::encode_segment;
use crate::remote::playbook_error;
use crate::remote::remote_backend::{RemoteBackend, found_or_none};
use crate::remote::token::call_error;
use crate::runs::{AdminBackend, CatalogBackend, RegisterOutput};

#[async_trait]
impl CatalogBackend for RemoteBackend {
    async fn register(&self, path: &str, text: &str) -> Result<RegisterOutput, CliError> {
        let before = self.find_playbook(path, None).await?;
        let request = RegisterRequest {
            content: text.to_owned(),
            resource_type: None,
            path: Some(path.to_owned()),
        };
        let kept = self.client.post("/api/catalog/register", &request).await;
        let kept: RegisterResponse = kept.map_err(|error| playbook_error::playbook_error(&error, path, text))?;
        Ok(RegisterOutput {
            is_new: before.is_none_or(|before| before.version != kept.version),
            path: kept.path,
            version: kept.version,
        })
    }

    async fn list_catalog(&self) -> Result<Vec<PlaybookEntry>, CliError> {
        let list = self.client.post("/api/catalog/list", &json!({})).await;
        let list: CatalogList = list.map_err(|error| call_error(&error))?;
        Ok(list.entries)
    }

    async fn find_playbook(&self, path: &str, version: Option<u32>) -> Result<Option<PlaybookEntry>, CliError> {
        let request = CatalogEntryRequest {
            path: path.to_owned(),
            version,
        };
        found_or_none(self.client.post("/api/catalog/resource", &request).await)
    }
}

#[async_trait]
impl AdminBackend for RemoteBackend {
    async fn create_token(&self, request: &CreateAccessTokenRequest) -> Result<CreateAccessTokenResponse, CliError> {
        let created = self.client.post("/api/tokens", request).await;
        created.map_err(|error| call_error(&error))
    }

    async fn list_tokens(&self) -> Result<Vec<AccessTokenEntry>, CliError> {
        let list: AccessTokenList = self.get_json("/api/tokens").await?;
        Ok(list.tokens)
    }

    async fn revoke_token(&self, id: &str) -> Result<(), CliError> {
        let path = format!("/api/tokens/{}", encode_segment(id));
        let revoked: Result<Value, _> = self.client.delete(&path).await;
        revoked.map(|_| ()).map_err(|error| call_error(&error))
    }

    async fn set_credential(&self, request: &SetCredentialRequest) -> Result<CredentialEntry, CliError> {
        let set = self.client.post("/api/credentials", request).await;
        set.map_err(|error| call_error(&error))
    }

    async fn list_credentials(&self) -> Result<Vec<CredentialEntry>, CliError> {
        let list: CredentialList = self.get_json("/api/credentials").await?;
        Ok(list.credentials)
    }

    async fn remove_credential(&self, name: &str) -> Result<(), CliError> {
        let path = format!("/api/credentials/{}", encode_segment(name));
        let removed: Result<Value, _> = self.client.delete(&path).await;
        removed.map(|_| ()).map_err(|error| call_error(&error))
    }

    async fn rotate_key(&self) -> Result<RotateKeyResponse, CliError> {
        let path = "/api/keychain/rotate-key";
        let rotated = self.client.post(path, &json!({})).await;
        rotated.map_err(|error| call_error(&error))
    }
}
