//! A database beside the system's own, in which playbooks count what they did: each key must be there once.

use std::collections::BTreeMap;

use tokio_postgres::{Client, NoTls};

use crate::peers::{Database, Postgres};

/// Whoever counts; the password is known to every run, and no secret.
const ROLE: &str = "e2e_tally";

/// The database, dropped with this value.
pub struct Tally(Database);

impl Tally {
    /// Makes it.
    pub async fn open(postgres: &Postgres) -> Self {
        let tally = Self(postgres.fresh_database());
        // No key is unique here: what happens twice must show.
        let sql = format!(
            "CREATE ROLE {ROLE} LOGIN PASSWORD '{ROLE}'; GRANT ALL ON SCHEMA public TO {ROLE}; \
             CREATE TABLE tally (key text); GRANT ALL ON tally TO {ROLE}; \
             CREATE TABLE work (run text, id int, taken bool NOT NULL DEFAULT false); GRANT ALL ON work TO {ROLE}"
        );
        let made = tally.client().await.batch_execute(&sql).await;
        made.expect("tables can be made");
        tally
    }

    /// Where playbooks find it.
    pub fn url(&self) -> String {
        let (place, name) = (self.0.place(), self.0.name());
        format!("postgres://{ROLE}:{ROLE}@{place}/{name}")
    }

    /// How often each key was committed.
    pub async fn counts(&self) -> BTreeMap<String, u32> {
        let sql = "SELECT key, count(*)::int FROM tally GROUP BY key";
        let rows = self.client().await.query(sql, &[]).await;
        let rows = rows.expect("rows can be counted").into_iter();
        let counted = rows.map(|row| (row.get(0), row.get::<_, i32>(1).unsigned_abs()));
        counted.collect()
    }

    async fn client(&self) -> Client {
        let connected = tokio_postgres::connect(&self.0.url(), NoTls).await;
        let (client, connection) = connected.expect("the database can be reached");
        tokio::spawn(connection);
        client
    }
}
