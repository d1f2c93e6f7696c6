//! Encrypted values in the database. Each operation is one statement.

use async_trait::async_trait;
use postgres::SqlValues;
use tokio_postgres::Row;

use crate::columns::Columns as _;
use crate::error::Error;
use crate::postgres::PostgresStore;
use crate::postgres::pool::SessionPool;
use crate::postgres::queries::{query_row, query_rows};
use crate::postgres::rows::{read_row, to_i32};
use crate::sealed::{CredentialRow, KeychainRow, SealedLocation, SealedStore, SealedValue};

/// Whether a statement with a RETURNING clause changed any row.
async fn has_changed_rows(pool: &SessionPool, sql: &'static str, values: SqlValues<'_>) -> Result<bool, Error> {
    let row = query_row(pool, sql, values, |_| Ok(())).await?;
    Ok(row.is_some())
}

#[async_trait]
impl SealedStore for PostgresStore {
    async fn put_credential(&self, row: CredentialRow) -> Result<bool, Error> {
        const PUT: &str = "INSERT INTO noetl.credential (data, data_key, key_id, name, type, version,
                created_at, updated_at, last_used_at)
            SELECT $1::bytea, $2::bytea, $3::text, $4::text, $5::text, $6::integer, $7::bigint, $8::bigint, $9::bigint
            WHERE $6 = 1 OR EXISTS (SELECT 1 FROM noetl.credential WHERE name = $4)
            ON CONFLICT (name) DO UPDATE SET data = excluded.data, data_key = excluded.data_key,
                key_id = excluded.key_id, type = excluded.type, version = excluded.version,
                updated_at = excluded.updated_at, last_used_at = excluded.last_used_at
            WHERE noetl.credential.version = excluded.version - 1
            RETURNING 1";
        let values: SqlValues<'_> = &[
            &row.sealed.data,
            &row.sealed.data_key,
            &row.sealed.key_id,
            &row.name,
            &row.kind,
            &to_i32(row.version),
            &row.created_at.0,
            &row.updated_at.0,
            &row.last_used_at.map(|time| time.0),
        ];
        has_changed_rows(self.work_pool(), PUT, values).await
    }

    async fn credential(&self, name: &str) -> Result<Option<CredentialRow>, Error> {
        const ONE: &str = "SELECT data, data_key, key_id, name, type, version, created_at, updated_at,
            last_used_at FROM noetl.credential WHERE name = $1";
        query_row(self.work_pool(), ONE, &[&name], read_row).await
    }

    async fn credentials(&self) -> Result<Vec<CredentialRow>, Error> {
        const ALL: &str = "SELECT data, data_key, key_id, name, type, version, created_at, updated_at,
            last_used_at FROM noetl.credential ORDER BY name COLLATE \"C\"";
        query_rows(self.work_pool(), ALL, &[], read_row).await
    }

    async fn remove_credential(&self, name: &str) -> Result<bool, Error> {
        const REMOVE: &str = "DELETE FROM noetl.credential WHERE name = $1 RETURNING 1";
        has_changed_rows(self.work_pool(), REMOVE, &[&name]).await
    }

    async fn touch_credential(&self, name: &str) -> Result<(), Error> {
        const TOUCH: &str = "UPDATE noetl.credential SET last_used_at = noetl.micros()
            WHERE name = $1 RETURNING 1";
        has_changed_rows(self.work_pool(), TOUCH, &[&name]).await.map(drop)
    }

    async fn put_keychain(&self, row: KeychainRow) -> Result<(), Error> {
        const PUT: &str = "WITH gone AS (
                DELETE FROM noetl.keychain WHERE expires_at <= (SELECT noetl.micros())
                    AND NOT (scope = $4 AND name = $5))
            INSERT INTO noetl.keychain (data, data_key, key_id, scope, name, resolved_at, expires_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7)
            ON CONFLICT (scope, name) DO UPDATE SET data = excluded.data, data_key = excluded.data_key,
                key_id = excluded.key_id, resolved_at = excluded.resolved_at, expires_at = excluded.expires_at
            RETURNING 1";
        let values: SqlValues<'_> = &[
            &row.sealed.data,
            &row.sealed.data_key,
            &row.sealed.key_id,
            &row.scope,
            &row.name,
            &row.resolved_at.0,
            &row.expires_at.map(|time| time.0),
        ];
        has_changed_rows(self.work_pool(), PUT, values).await.map(drop)
    }

    async fn keychain(&self, scope: &str, name: &str) -> Result<Option<KeychainRow>, Error> {
        const ONE: &str = "SELECT data, data_key, key_id, scope, name, resolved_at, expires_at
            FROM noetl.keychain WHERE scope = $1 AND name = $2";
        query_row(self.work_pool(), ONE, &[&scope, &name], read_row).await
    }

    async fn remove_keychain(&self, scope: &str, name: &str) -> Result<bool, Error> {
        const REMOVE: &str = "DELETE FROM noetl.keychain WHERE scope = $1 AND name = $2 RETURNING 1";
        has_changed_rows(self.work_pool(), REMOVE, &[&scope, &name]).await
    }

    async fn sealed_with_other_keys(&self, key_id: &str) -> Result<Vec<(SealedLocation, SealedValue)>, Error> {
        const ALL: &str = "SELECT data, data_key, key_id, NULL, name, version FROM noetl.credential
                WHERE key_id <> $1
            UNION ALL SELECT data, data_key, key_id, scope, name, 0 FROM noetl.keychain WHERE key_id <> $1";
        let read = |row: &Row| {
            let (name, version) = (row.string(4)?, row.count(5)?);
            let location = match row.try_get(3)? {
                Some(scope) => SealedLocation::Keychain { scope, name },
                None => SealedLocation::Credential { name, version },
            };
            Ok((location, read_row(row)?))
        };
        let mut values = query_rows(self.work_pool(), ALL, &[&key_id], read).await?;
        values.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(values)
    }

    async fn rewrap(&self, location: &SealedLocation, from: &SealedValue, to: &SealedValue) -> Result<bool, Error> {
        const CREDENTIAL: &str = "UPDATE noetl.credential SET data_key = $1, key_id = $2
            WHERE data_key = $3 AND name = $4 AND version = $5 RETURNING 1";
        const KEYCHAIN: &str = "UPDATE noetl.keychain SET data_key = $1, key_id = $2
            WHERE data_key = $3 AND scope = $4 AND name = $5 RETURNING 1";
        let (new_key, key_id, old_key) = (&to.data_key, &to.key_id, &from.data_key);
        match location {
            SealedLocation::Credential { name, version } => {
                let values: SqlValues<'_> = &[new_key, key_id, old_key, name, &to_i32(*version)];
                has_changed_rows(self.work_pool(), CREDENTIAL, values).await
            }
            SealedLocation::Keychain { scope, name } => {
                let values: SqlValues<'_> = &[new_key, key_id, old_key, scope, name];
                has_changed_rows(self.work_pool(), KEYCHAIN, values).await
            }
        }
    }
}
