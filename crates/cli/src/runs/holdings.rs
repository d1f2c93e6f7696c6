//! Catalog, access tokens and credentials of a local store.

use async_trait::async_trait;
use server::{Actor, TokenError};
use store::CatalogEntry;
use wire::api::{
    CredentialEntry, CredentialRequest, KeyRotated, PlaybookEntry, TokenCreated, TokenEntry,
    TokenRequest,
};

use crate::local::Session;
use crate::problem::{Exit, Problem};
use crate::runs::local::Here;
use crate::runs::place::{Kept, Keys, Playbooks};

#[async_trait]
impl Playbooks for Here<'_> {
    async fn register(&self, path: &str, text: &str) -> Result<Kept, Problem> {
        let store = &self.log.store;
        let before = store.latest(path, None).await?;
        let kept = store.put_playbook(path, text).await?;
        Ok(Kept {
            is_new: before.is_none_or(|before| before.version != kept.version),
            path: kept.path.to_string(),
            version: kept.version,
        })
    }

    async fn catalog(&self) -> Result<Vec<PlaybookEntry>, Problem> {
        let entries = self.log.store.catalog().await?;
        Ok(entries.iter().map(|entry| shown(entry, None)).collect())
    }

    async fn find(
        &self,
        path: &str,
        version: Option<u32>,
    ) -> Result<Option<PlaybookEntry>, Problem> {
        let entry = self.log.store.latest(path, version).await?;
        Ok(entry.map(|entry| shown(&entry, Some(entry.text.to_string()))))
    }
}

fn shown(entry: &CatalogEntry, content: Option<String>) -> PlaybookEntry {
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
impl Keys for Here<'_> {
    async fn create_token(&self, request: &TokenRequest) -> Result<TokenCreated, Problem> {
        let session = Session::start(self.log.clone())?;
        let created = session.server.create_token(request, owner()).await;
        session.stop().await;
        created.map_err(failed)
    }

    async fn tokens(&self) -> Result<Vec<TokenEntry>, Problem> {
        let session = Session::start(self.log.clone())?;
        let tokens = session.server.tokens().await;
        session.stop().await;
        tokens.map_err(failed)
    }

    async fn revoke_token(&self, id: &str) -> Result<(), Problem> {
        let session = Session::start(self.log.clone())?;
        let revoked = session.server.revoke_token(id, owner()).await;
        session.stop().await;
        revoked.map_err(failed)
    }

    async fn set_credential(
        &self,
        request: &CredentialRequest,
    ) -> Result<CredentialEntry, Problem> {
        let session = Session::start(self.log.clone())?;
        let set = session.server.set_credential(request, owner()).await;
        session.stop().await;
        Ok(set?)
    }

    async fn credentials(&self) -> Result<Vec<CredentialEntry>, Problem> {
        let session = Session::start(self.log.clone())?;
        let credentials = session.server.credentials().await;
        session.stop().await;
        Ok(credentials?)
    }

    async fn remove_credential(&self, name: &str) -> Result<(), Problem> {
        let session = Session::start(self.log.clone())?;
        let removed = session.server.remove_credential(name, owner()).await;
        session.stop().await;
        Ok(removed?)
    }

    async fn rotate_key(&self) -> Result<KeyRotated, Problem> {
        let session = Session::start(self.log.clone())?;
        let rotated = session.server.rotate_master_key(owner()).await;
        session.stop().await;
        let rotated = rotated?;
        Ok(KeyRotated {
            key_id: rotated.key_id,
            rewrapped: rotated.rewrapped,
            remaining: rotated.remaining,
        })
    }
}

/// The actor of local changes: a user who can write the store files has all permissions.
fn owner() -> Actor {
    Actor {
        name: "the store's owner".to_owned(),
        source: None,
    }
}

fn failed(error: TokenError) -> Problem {
    match error {
        TokenError::Name | TokenError::Expires => Problem::usage(error.to_string()),
        TokenError::Unknown(_) => {
            Problem::new(Exit::NotFound, "TOKEN_NOT_FOUND", error.to_string())
                .help("list tokens with `noetl token list`")
        }
        TokenError::Store(error) => error.into(),
    }
}
