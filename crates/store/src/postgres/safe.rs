//! Encrypted values in the database. Each operation is one statement.

use async_trait::async_trait;
use model::time::Time;
use tokio_postgres::Row;

use crate::error::Error;
use crate::postgres::Postgres;
use crate::postgres::failure::Fault;
use crate::postgres::pool::{Pool, Values};
use crate::postgres::read::{find, find_one};
use crate::postgres::rows::count;
use crate::safe::{CredentialRow, KeychainRow, Safe, Sealed, SealedPlace};

/// Whether a statement with a RETURNING clause changed any row.
async fn changed(pool: &Pool, sql: &'static str, values: Values<'_>) -> Result<bool, Error> {
    let found = find_one(pool, sql, values, |_| Ok(())).await?;
    Ok(found.is_some())
}

fn sealed(row: &Row) -> Result<Sealed, Fault> {
    Ok(Sealed {
        data: row.try_get(0)?,
        data_key: row.try_get(1)?,
        key_id: row.try_get(2)?,
    })
}

fn credential(row: &Row) -> Result<CredentialRow, Fault> {
    Ok(CredentialRow {
        sealed: sealed(row)?,
        name: row.try_get(3)?,
        kind: row.try_get(4)?,
        version: count(row, 5)?,
        created_at: Time(row.try_get(6)?),
        updated_at: Time(row.try_get(7)?),
        last_used_at: row.try_get::<_, Option<i64>>(8)?.map(Time),
    })
}

fn keychain(row: &Row) -> Result<KeychainRow, Fault> {
    Ok(KeychainRow {
        sealed: sealed(row)?,
        scope: row.try_get(3)?,
        name: row.try_get(4)?,
        resolved_at: Time(row.try_get(5)?),
        expires_at: row.try_get::<_, Option<i64>>(6)?.map(Time),
    })
}

fn version(version: u32) -> i32 {
    i32::try_from(version).unwrap_or(i32::MAX)
}

#[async_trait]
impl Safe for Postgres {
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
        let values: Values<'_> = &[
            &row.sealed.data,
            &row.sealed.data_key,
            &row.sealed.key_id,
            &row.name,
            &row.kind,
            &version(row.version),
            &row.created_at.0,
            &row.updated_at.0,
            &row.last_used_at.map(|time| time.0),
        ];
        changed(self.work(), PUT, values).await
    }

    async fn credential(&self, name: &str) -> Result<Option<CredentialRow>, Error> {
        const ONE: &str =
            "SELECT data, data_key, key_id, name, type, version, created_at, updated_at,
            last_used_at FROM noetl.credential WHERE name = $1";
        find_one(self.work(), ONE, &[&name], credential).await
    }

    async fn credentials(&self) -> Result<Vec<CredentialRow>, Error> {
        const ALL: &str =
            "SELECT data, data_key, key_id, name, type, version, created_at, updated_at,
            last_used_at FROM noetl.credential ORDER BY name COLLATE \"C\"";
        find(self.work(), ALL, &[], credential).await
    }

    async fn remove_credential(&self, name: &str) -> Result<bool, Error> {
        const REMOVE: &str = "DELETE FROM noetl.credential WHERE name = $1 RETURNING 1";
        changed(self.work(), REMOVE, &[&name]).await
    }

    async fn touch_credential(&self, name: &str) -> Result<(), Error> {
        const TOUCH: &str = "UPDATE noetl.credential SET last_used_at = noetl.micros()
            WHERE name = $1 RETURNING 1";
        changed(self.work(), TOUCH, &[&name]).await.map(drop)
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
        let values: Values<'_> = &[
            &row.sealed.data,
            &row.sealed.data_key,
            &row.sealed.key_id,
            &row.scope,
            &row.name,
            &row.resolved_at.0,
            &row.expires_at.map(|time| time.0),
        ];
        changed(self.work(), PUT, values).await.map(drop)
    }

    async fn keychain(&self, scope: &str, name: &str) -> Result<Option<KeychainRow>, Error> {
        const ONE: &str = "SELECT data, data_key, key_id, scope, name, resolved_at, expires_at
            FROM noetl.keychain WHERE scope = $1 AND name = $2";
        find_one(self.work(), ONE, &[&scope, &name], keychain).await
    }

    async fn remove_keychain(&self, scope: &str, name: &str) -> Result<bool, Error> {
        const REMOVE: &str =
            "DELETE FROM noetl.keychain WHERE scope = $1 AND name = $2 RETURNING 1";
        changed(self.work(), REMOVE, &[&scope, &name]).await
    }

    async fn sealed_otherwise(&self, key_id: &str) -> Result<Vec<(SealedPlace, Sealed)>, Error> {
        const ALL: &str = "SELECT data, data_key, key_id, NULL, name, version FROM noetl.credential
                WHERE key_id <> $1
            UNION ALL SELECT data, data_key, key_id, scope, name, 0 FROM noetl.keychain WHERE key_id <> $1";
        let read = |row: &Row| {
            let name: String = row.try_get(4)?;
            let place = match row.try_get(3)? {
                Some(scope) => SealedPlace::Keychain { scope, name },
                None => SealedPlace::Credential {
                    name,
                    version: count(row, 5)?,
                },
            };
            Ok((place, sealed(row)?))
        };
        let mut all = find(self.work(), ALL, &[&key_id], read).await?;
        all.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(all)
    }

    async fn rewrap(&self, place: &SealedPlace, from: &Sealed, to: &Sealed) -> Result<bool, Error> {
        const CREDENTIAL: &str = "UPDATE noetl.credential SET data_key = $1, key_id = $2
            WHERE data_key = $3 AND name = $4 AND version = $5 RETURNING 1";
        const KEYCHAIN: &str = "UPDATE noetl.keychain SET data_key = $1, key_id = $2
            WHERE data_key = $3 AND scope = $4 AND name = $5 RETURNING 1";
        let (new, id, before) = (&to.data_key, &to.key_id, &from.data_key);
        match place {
            SealedPlace::Credential { name, version: of } => {
                let values: Values<'_> = &[new, id, before, name, &version(*of)];
                changed(self.work(), CREDENTIAL, values).await
            }
            SealedPlace::Keychain { scope, name } => {
                let values: Values<'_> = &[new, id, before, scope, name];
                changed(self.work(), KEYCHAIN, values).await
            }
        }
    }
}
