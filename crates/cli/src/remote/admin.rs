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
use crate::remote::remote_backend::{RemoteBackend, none_if_missing};
use crate::runs::{AdminBackend, CatalogBackend, RegisterOutput};

impl RemoteBackend {
    async fn delete(&self, collection: &str, id: &str) -> Result<(), CliError> {
        let path = format!("{collection}/{}", encode_segment(id));
        let _: Value = self.client.delete(&path).await?;
        Ok(())
    }
}

#[async_trait]
impl CatalogBackend for RemoteBackend {
    async fn register(&self, path: &str, text: &str) -> Result<RegisterOutput, CliError> {
        let before = self.find_playbook(path, None).await?;
        let request = RegisterRequest {
            content: text.to_owned(),
            resource_type: None,
            path: Some(path.to_owned()),
        };
        let response = self.client.post("/api/catalog/register", &request).await;
        let response: RegisterResponse =
            response.map_err(|error| playbook_error::playbook_error(&error, path, text))?;
        Ok(RegisterOutput {
            is_new: before.is_none_or(|before| before.version != response.version),
            path: response.path,
            version: response.version,
        })
    }

    async fn list_catalog(&self) -> Result<Vec<PlaybookEntry>, CliError> {
        let list: CatalogList = self.client.post("/api/catalog/list", &json!({})).await?;
        Ok(list.entries)
    }

    async fn find_playbook(&self, path: &str, version: Option<u32>) -> Result<Option<PlaybookEntry>, CliError> {
        let request = CatalogEntryRequest {
            path: path.to_owned(),
            version,
        };
        none_if_missing(self.client.post("/api/catalog/resource", &request).await)
    }
}

#[async_trait]
impl AdminBackend for RemoteBackend {
    async fn create_token(&self, request: &CreateAccessTokenRequest) -> Result<CreateAccessTokenResponse, CliError> {
        Ok(self.client.post("/api/tokens", request).await?)
    }

    async fn list_tokens(&self) -> Result<Vec<AccessTokenEntry>, CliError> {
        let list: AccessTokenList = self.get_json("/api/tokens").await?;
        Ok(list.tokens)
    }

    async fn revoke_token(&self, id: &str) -> Result<(), CliError> {
        self.delete("/api/tokens", id).await
    }

    async fn set_credential(&self, request: &SetCredentialRequest) -> Result<CredentialEntry, CliError> {
        Ok(self.client.post("/api/credentials", request).await?)
    }

    async fn list_credentials(&self) -> Result<Vec<CredentialEntry>, CliError> {
        let list: CredentialList = self.get_json("/api/credentials").await?;
        Ok(list.credentials.into_iter().map(|listed| listed.entry).collect())
    }

    async fn remove_credential(&self, name: &str) -> Result<(), CliError> {
        self.delete("/api/credentials", name).await
    }

    async fn rotate_key(&self) -> Result<RotateKeyResponse, CliError> {
        Ok(self.client.post("/api/keychain/rotate-key", &json!({})).await?)
    }
}
