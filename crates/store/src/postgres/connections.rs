//! Connections to the store's database for other components, configured like the store's own.

use std::time::Duration;

use tokio_postgres::Client;

use crate::error::Error;
use crate::postgres::options::{ConnectTarget, PostgresUrl};
use crate::postgres::pool::Connector;

/// Opens connections to a database, with the TLS settings of its URL.
#[derive(Clone)]
pub struct PostgresConnections {
    connector: Connector,
}

impl PostgresConnections {
    /// Creates a connection factory for the database at this URL; opens no connection yet.
    pub fn new(url: &PostgresUrl) -> Result<Self, Error> {
        let connector = Connector::new(ConnectTarget::parse(url)?)?;
        Ok(Self { connector })
    }

    /// Opens a connection that its own task runs. Its commits are durable when they return.
    pub async fn open(&self, statement_max: Duration) -> Result<Client, Error> {
        Ok(self.connector.session(statement_max).await?.client)
    }

    /// Host, port and database, for messages; never the password.
    pub fn location(&self) -> String {
        self.connector.target.location()
    }
}
