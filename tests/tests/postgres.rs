//! The store in Postgres keeps the contract, and what only a database over the network can get wrong.

use std::sync::Arc;

use store::contract::Site;
use store::{Postgres, PostgresOptions, PostgresUrl, Store};
use tests::peers::{self, Database};
use tokio::runtime::Handle;

/// A fresh database that processes can join.
struct Shared(Database);

impl Shared {
    fn options(&self) -> PostgresOptions {
        PostgresOptions {
            pool_size: 4,
            ..PostgresOptions::new(PostgresUrl::new(self.0.url()))
        }
    }
}

fn open(options: PostgresOptions) -> Arc<dyn Store> {
    let opened =
        tokio::task::block_in_place(|| Handle::current().block_on(Postgres::open(options)));
    Arc::new(opened.unwrap_or_else(|error| panic!("{error:?}")))
}

impl Site for Shared {
    fn join(&self) -> Arc<dyn Store> {
        open(self.options())
    }

    fn join_publishing(&self) -> Arc<dyn Store> {
        open(PostgresOptions {
            publishes: true,
            ..self.options()
        })
    }
}

fn site() -> Shared {
    Shared(peers::Postgres::shared().fresh_database())
}

store::contract_suite!(site());
