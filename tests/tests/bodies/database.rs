//! The suites against a real Postgres.

use std::sync::Arc;

use async_trait::async_trait;
use postgres::Connector;
use results::contract::BodyStoreFixture;
use results::{BodyStore, StoredBody, TaskLogs};
use store::{PostgresOptions, PostgresUrl};
use tests::peers::{PostgresServer, TestDatabase};

/// A database with its schema.
pub(crate) struct PostgresBodyFixture(pub(crate) TestDatabase);

impl PostgresBodyFixture {
    pub(crate) async fn new() -> Self {
        let database = PostgresServer::shared().fresh_database();
        let options = PostgresOptions {
            pool_size: 2,
            ..PostgresOptions::new(PostgresUrl::new(database.url()))
        };
        store::PostgresStore::open(options).await.unwrap();
        Self(database)
    }

    /// Bodies in it, reached at this URL.
    pub(crate) async fn open_store(url: String) -> results::PostgresBodyStore {
        let connector = Connector::from_url(&PostgresUrl::new(url)).unwrap();
        let opened = results::PostgresBodyStore::open(connector).await;
        opened.unwrap_or_else(|error| panic!("{error:?}"))
    }

    /// Does something behind the store's back, or looks.
    pub(crate) async fn run_sql(&self, sql: &str) -> Vec<i64> {
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
        self.run_sql(sql).await.try_into().unwrap()
    }
}

#[async_trait]
impl BodyStoreFixture for PostgresBodyFixture {
    async fn open_store(&self) -> Arc<dyn BodyStore> {
        Arc::new(Self::open_store(self.0.url()).await)
    }

    async fn damage_body(&self, stored: &StoredBody) {
        let sql = format!(
            "WITH old AS (SELECT draft, chunks - 1 AS n FROM noetl.body WHERE sha256 = decode('{}', 'hex')) \
             UPDATE noetl.body_chunk c SET bytes = \
                set_byte(bytes, length(bytes) - 1, get_byte(bytes, length(bytes) - 1) # 1) \
             FROM old WHERE c.draft = old.draft AND c.n = old.n RETURNING 1::bigint",
            stored.sha256
        );
        assert_eq!(self.run_sql(&sql).await, [1]);
    }
}

results::contract_suite!(PostgresBodyFixture::new().await);

mod logs {
    use super::*;

    results::logs_contract_suite!({
        let shared = PostgresBodyFixture::new().await;
        let logs = PostgresBodyFixture::open_store(shared.0.url()).await.logs();
        let logs: Arc<dyn TaskLogs> = Arc::new(logs);
        (logs, shared)
    });
}
