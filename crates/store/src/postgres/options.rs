//! How to open a store in Postgres.

use postgres::PostgresUrl;

/// How to open a store in Postgres.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// The URL of the database.
    pub url: PostgresUrl,
    /// The URL at which other servers reach this one.
    pub address: Option<String>,
    /// Maximum number of pooled connections, besides one for heartbeats and one for LISTEN. A third of them is
    /// reserved for lists.
    pub pool_size: usize,
    /// Whether commits write rows to the outbox for a publisher.
    pub publishes: bool,
}

impl PostgresOptions {
    /// Options without an address for other servers and without a publisher.
    pub fn new(url: PostgresUrl) -> Self {
        Self {
            url,
            address: None,
            pool_size: 12,
            publishes: false,
        }
    }
}
