//! Encrypted values in the store's SQLite database.

use async_trait::async_trait;
use rusqlite::params;

use crate::Store as _;
use crate::error::Error;
use crate::sealed::{CredentialRow, KeychainRow, SealedLocation, SealedStore, SealedValue};
use crate::sqlite::SqliteStore;
use crate::sqlite::rows::{query_row, query_rows, read_row};

const CREDENTIAL_COLUMNS: &str = "data, data_key, key_id, name, type, version, created_at, updated_at, last_used_at";
const KEYCHAIN_COLUMNS: &str = "data, data_key, key_id, scope, name, resolved_at, expires_at";

/// Removes the entries that have expired, found by their own index.
pub(super) const REMOVE_EXPIRED: &str = "DELETE FROM keychain WHERE expires_at <= ?1";

#[async_trait]
impl SealedStore for SqliteStore {
    async fn put_credential(&self, row: CredentialRow) -> Result<bool, Error> {
        // A new version replaces the previous one; version 1 requires that there is none.
        let sql = format!(
            "INSERT INTO credential ({CREDENTIAL_COLUMNS})
             SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9
             WHERE ?6 = 1 OR EXISTS (SELECT 1 FROM credential WHERE name = ?4)
             ON CONFLICT (name) DO UPDATE SET data = excluded.data, data_key = excluded.data_key,
                 key_id = excluded.key_id, type = excluded.type, version = excluded.version,
                 updated_at = excluded.updated_at, last_used_at = excluded.last_used_at
             WHERE credential.version = excluded.version - 1"
        );
        self.write(move |db| {
            let changed = db.prepare_cached(&sql)?.execute(params![
                row.sealed.data,
                row.sealed.data_key,
                row.sealed.key_id,
                row.name,
                row.kind,
                row.version,
                row.created_at.0,
                row.updated_at.0,
                row.last_used_at.map(|time| time.0),
            ])?;
            Ok(changed > 0)
        })
        .await
    }

    async fn credential(&self, name: &str) -> Result<Option<CredentialRow>, Error> {
        let name = name.to_owned();
        self.read(move |db| {
            let sql = format!("SELECT {CREDENTIAL_COLUMNS} FROM credential WHERE name = ?1");
            Ok(query_row(db, &sql, [name], read_row)?)
        })
        .await
    }

    async fn credentials(&self) -> Result<Vec<CredentialRow>, Error> {
        self.read(|db| {
            let sql = format!("SELECT {CREDENTIAL_COLUMNS} FROM credential ORDER BY name");
            Ok(query_rows(db, &sql, [], read_row)?)
        })
        .await
    }

    async fn remove_credential(&self, name: &str) -> Result<bool, Error> {
        let name = name.to_owned();
        self.write(move |db| {
            let mut statement = db.prepare_cached("DELETE FROM credential WHERE name = ?1")?;
            Ok(statement.execute([&name])? > 0)
        })
        .await
    }

    async fn touch_credential(&self, name: &str) -> Result<(), Error> {
        let (name, now) = (name.to_owned(), self.now());
        self.write(move |db| {
            let sql = "UPDATE credential SET last_used_at = ?2 WHERE name = ?1";
            db.prepare_cached(sql)?.execute(params![name, now.0])?;
            Ok(())
        })
        .await
    }

    async fn put_keychain(&self, row: KeychainRow) -> Result<(), Error> {
        let now = self.now();
        self.write(move |db| {
            db.prepare_cached(REMOVE_EXPIRED)?.execute([now.0])?;
            let sql =
                format!("INSERT OR REPLACE INTO keychain ({KEYCHAIN_COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)");
            db.prepare_cached(&sql)?.execute(params![
                row.sealed.data,
                row.sealed.data_key,
                row.sealed.key_id,
                row.scope,
                row.name,
                row.resolved_at.0,
                row.expires_at.map(|time| time.0),
            ])?;
            Ok(())
        })
        .await
    }

    async fn keychain(&self, scope: &str, name: &str) -> Result<Option<KeychainRow>, Error> {
        let key = [scope.to_owned(), name.to_owned()];
        self.read(move |db| {
            let sql = format!("SELECT {KEYCHAIN_COLUMNS} FROM keychain WHERE scope = ?1 AND name = ?2");
            Ok(query_row(db, &sql, key, read_row)?)
        })
        .await
    }

    async fn remove_keychain(&self, scope: &str, name: &str) -> Result<bool, Error> {
        let key = [scope.to_owned(), name.to_owned()];
        self.write(move |db| {
            let sql = "DELETE FROM keychain WHERE scope = ?1 AND name = ?2";
            Ok(db.prepare_cached(sql)?.execute([&key[0], &key[1]])? > 0)
        })
        .await
    }

    async fn sealed_with_other_keys(&self, key_id: &str) -> Result<Vec<(SealedLocation, SealedValue)>, Error> {
        const ALL: &str = "SELECT data, data_key, key_id, NULL, name, version FROM credential
                WHERE key_id <> ?1
            UNION ALL SELECT data, data_key, key_id, scope, name, 0 FROM keychain WHERE key_id <> ?1
            ORDER BY 4, 5";
        let key_id = key_id.to_owned();
        self.read(move |db| {
            Ok(query_rows(db, ALL, [key_id], |row| {
                let (name, version) = (row.get(4)?, row.get(5)?);
                let location = match row.get(3)? {
                    Some(scope) => SealedLocation::Keychain { scope, name },
                    None => SealedLocation::Credential { name, version },
                };
                Ok((location, read_row(row)?))
            })?)
        })
        .await
    }

    async fn rewrap(&self, location: &SealedLocation, from: &SealedValue, to: &SealedValue) -> Result<bool, Error> {
        let (location, before, to) = (location.clone(), from.data_key.clone(), to.clone());
        self.write(move |db| {
            let changed = match &location {
                SealedLocation::Credential { name, version } => db
                    .prepare_cached(
                        "UPDATE credential SET data_key = ?1, key_id = ?2
                         WHERE data_key = ?3 AND name = ?4 AND version = ?5",
                    )?
                    .execute(params![to.data_key, to.key_id, before, name, version])?,
                SealedLocation::Keychain { scope, name } => db
                    .prepare_cached(
                        "UPDATE keychain SET data_key = ?1, key_id = ?2
                         WHERE data_key = ?3 AND scope = ?4 AND name = ?5",
                    )?
                    .execute(params![to.data_key, to.key_id, before, scope, name])?,
            };
            Ok(changed > 0)
        })
        .await
    }
}
