//! Catalog, access tokens and credentials of a server.

use async_trait::async_trait;
use serde_json::{Value, json};
use wire::api::{
    CatalogList, CredentialEntry, CredentialList, CredentialRequest, KeyRotated, PathRequest,
    PlaybookEntry, RegisterRequest, Registered, TokenCreated, TokenEntry, TokenList, TokenRequest,
};

use crate::problem::Problem;
use crate::remote::elsewhere::{Elsewhere, if_found};
use crate::remote::paths::encode;
use crate::remote::refusal;
use crate::remote::token::unanswered;
use crate::runs::{Kept, Keys, Playbooks};

#[async_trait]
impl Playbooks for Elsewhere {
    async fn register(&self, path: &str, text: &str) -> Result<Kept, Problem> {
        let before = self.find(path, None).await?;
        let request = RegisterRequest {
            content: text.to_owned(),
            resource_type: None,
            path: Some(path.to_owned()),
        };
        let kept = self.client.post("/api/catalog/register", &request).await;
        let kept: Registered = kept.map_err(|error| refusal::of_text(&error, path, text))?;
        Ok(Kept {
            is_new: before.is_none_or(|before| before.version != kept.version),
            path: kept.path,
            version: kept.version,
        })
    }

    async fn catalog(&self) -> Result<Vec<PlaybookEntry>, Problem> {
        let list = self.client.post("/api/catalog/list", &json!({})).await;
        let list: CatalogList = list.map_err(|error| unanswered(&error))?;
        Ok(list.entries)
    }

    async fn find(
        &self,
        path: &str,
        version: Option<u32>,
    ) -> Result<Option<PlaybookEntry>, Problem> {
        let request = PathRequest {
            path: path.to_owned(),
            version,
        };
        if_found(self.client.post("/api/catalog/resource", &request).await)
    }
}

#[async_trait]
impl Keys for Elsewhere {
    async fn create_token(&self, request: &TokenRequest) -> Result<TokenCreated, Problem> {
        let created = self.client.post("/api/tokens", request).await;
        created.map_err(|error| unanswered(&error))
    }

    async fn tokens(&self) -> Result<Vec<TokenEntry>, Problem> {
        let list: TokenList = self.ask("/api/tokens").await?;
        Ok(list.tokens)
    }

    async fn revoke_token(&self, id: &str) -> Result<(), Problem> {
        let path = format!("/api/tokens/{}", encode(id));
        let revoked: Result<Value, _> = self.client.delete(&path).await;
        revoked.map(|_| ()).map_err(|error| unanswered(&error))
    }

    async fn set_credential(
        &self,
        request: &CredentialRequest,
    ) -> Result<CredentialEntry, Problem> {
        let set = self.client.post("/api/credentials", request).await;
        set.map_err(|error| unanswered(&error))
    }

    async fn credentials(&self) -> Result<Vec<CredentialEntry>, Problem> {
        let list: CredentialList = self.ask("/api/credentials").await?;
        Ok(list.credentials)
    }

    async fn remove_credential(&self, name: &str) -> Result<(), Problem> {
        let path = format!("/api/credentials/{}", encode(name));
        let removed: Result<Value, _> = self.client.delete(&path).await;
        removed.map(|_| ()).map_err(|error| unanswered(&error))
    }

    async fn rotate_key(&self) -> Result<KeyRotated, Problem> {
        let path = "/api/keychain/rotate-key";
        let rotated = self.client.post(path, &json!({})).await;
        rotated.map_err(|error| unanswered(&error))
    }
}
