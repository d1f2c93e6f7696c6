//! Connections for others who keep things in the store's database, made as the store makes its own.

use std::time::Duration;

use tokio_postgres::Client;

use crate::error::Error;
use crate::postgres::options::{PostgresUrl, Target};
use crate::postgres::pool::Connector;

/// Makes connections to a database as its URL says, TLS and all.
#[derive(Clone)]
pub struct PostgresConnections {
    connector: Connector,
}

impl PostgresConnections {
    /// Connections to the database at this URL; none is made yet.
    pub fn new(url: &PostgresUrl) -> Result<Self, Error> {
        let connector = Connector::new(Target::parse(url)?)?;
        Ok(Self { connector })
    }

    /// A connection driven by a task of its own, whose commits are durable when they are answered.
    pub async fn open(&self, statement_max: Duration) -> Result<Client, Error> {
        Ok(self.connector.session(statement_max).await?.client)
    }

    /// Host, port and database, for people; never the password.
    pub fn place(&self) -> String {
        self.connector.target.place()
    }
}
