//! The suites against a real Postgres.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use results::contract::Site;
use results::{Bodies, Connect, ConnectError, PostgresClient, Stored, TaskLogs};
use store::{PostgresConnections, PostgresOptions, PostgresUrl};
use tests::peers::{Database, Postgres};

/// A database with its schema.
pub(crate) struct Shared(pub(crate) Database);

/// Connections as the binary makes them.
struct Connections(PostgresConnections);

#[async_trait]
impl Connect for Connections {
    async fn connect(&self, statement_max: Duration) -> Result<PostgresClient, ConnectError> {
        Ok(self.0.open(statement_max).await?)
    }

    fn place(&self) -> String {
        self.0.place()
    }
}

impl Shared {
    pub(crate) async fn new() -> Self {
        let database = Postgres::shared().fresh_database();
        let options = PostgresOptions {
            pool_size: 2,
            ..PostgresOptions::new(PostgresUrl::new(database.url()))
        };
        store::Postgres::open(options).await.unwrap();
        Self(database)
    }

    /// Bodies in it, reached at this URL.
    pub(crate) async fn bodies(url: String) -> results::Postgres {
        let connections = PostgresConnections::new(&PostgresUrl::new(url)).unwrap();
        let opened = results::Postgres::open(Arc::new(Connections(connections))).await;
        opened.unwrap_or_else(|error| panic!("{error:?}"))
    }

    /// Does something behind the store's back, or looks.
    pub(crate) async fn sql(&self, sql: &str) -> Vec<i64> {
        let connected = tokio_postgres::connect(&self.0.url(), tokio_postgres::NoTls).await;
        let (client, connection) = connected.unwrap();
        let driver = tokio::spawn(connection);
        let rows = client.query(sql, &[]).await.unwrap();
        drop(client);
        driver.await.unwrap().unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// How many pieces, bodies and drafts there are.
    pub(crate) async fn counts(&self) -> [i64; 3] {
        let sql = "SELECT count(*) FROM noetl.body_chunk UNION ALL SELECT count(*) FROM noetl.body \
            UNION ALL SELECT count(*) FROM noetl.body_draft";
        self.sql(sql).await.try_into().unwrap()
    }
}

#[async_trait]
impl Site for Shared {
    async fn join(&self) -> Arc<dyn Bodies> {
        Arc::new(Self::bodies(self.0.url()).await)
    }

    async fn damage(&self, stored: &Stored) {
        let sql = format!(
            "WITH old AS (SELECT draft, chunks - 1 AS n FROM noetl.body WHERE sha256 = decode('{}', 'hex')) \
             UPDATE noetl.body_chunk c SET bytes = \
                set_byte(bytes, length(bytes) - 1, get_byte(bytes, length(bytes) - 1) # 1) \
             FROM old WHERE c.draft = old.draft AND c.n = old.n RETURNING 1::bigint",
            stored.sha256
        );
        assert_eq!(self.sql(&sql).await, [1]);
    }
}

results::contract_suite!(Shared::new().await);

mod logs {
    use super::*;

    results::logs_contract_suite!({
        let shared = Shared::new().await;
        let logs = Shared::bodies(shared.0.url()).await.logs();
        let logs: Arc<dyn TaskLogs> = Arc::new(logs);
        (logs, shared)
    });
}
