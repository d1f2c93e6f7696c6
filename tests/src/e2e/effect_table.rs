//! A separate database in which playbooks count their effects: each key must be there once.

use std::collections::BTreeMap;

use tokio_postgres::{Client, NoTls};

use crate::peers::{PostgresServer, TestDatabase};

/// Role that the playbooks use, and its password, which is not a secret.
const ROLE: &str = "e2e_tally";

/// The database; it is dropped with this value.
pub struct EffectTable(TestDatabase);

impl EffectTable {
    /// Creates the database.
    pub async fn open(postgres: &PostgresServer) -> Self {
        let table = Self(postgres.fresh_database());
        // No key is unique here, so that duplicate effects are visible.
        let sql = format!(
            "CREATE ROLE {ROLE} LOGIN PASSWORD '{ROLE}'; GRANT ALL ON SCHEMA public TO {ROLE}; \
             CREATE TABLE tally (key text); GRANT ALL ON tally TO {ROLE}; \
             CREATE TABLE work (run text, id int, taken bool NOT NULL DEFAULT false); GRANT ALL ON work TO {ROLE}"
        );
        let created = table.client().await.batch_execute(&sql).await;
        created.expect("tables can be created");
        table
    }

    /// URL for the playbooks.
    pub fn url(&self) -> String {
        let (location, name) = (self.0.location(), self.0.name());
        format!("postgres://{ROLE}:{ROLE}@{location}/{name}")
    }

    /// Number of commits of each key.
    pub async fn counts(&self) -> BTreeMap<String, u32> {
        let sql = "SELECT key, count(*)::int FROM tally GROUP BY key";
        let rows = self.client().await.query(sql, &[]).await;
        let rows = rows.expect("rows can be counted").into_iter();
        let counted = rows.map(|row| (row.get(0), row.get::<_, i32>(1).unsigned_abs()));
        counted.collect()
    }

    async fn client(&self) -> Client {
        let connected = tokio_postgres::connect(&self.0.url(), NoTls).await;
        let (client, connection) = connected.expect("the database accepts connections");
        tokio::spawn(connection);
        client
    }
}
