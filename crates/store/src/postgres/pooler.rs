//! Checks that a connection keeps its backend, which prepared statements and LISTEN require.
//!
//! Two connections each set a variable in their session and read it back. Behind a pooler that shares backends between
//! transactions, the first one reads the value of the second, or none.

use std::time::Duration;

use postgres::{Connector, QueryError};

use crate::error::Error;
use crate::postgres::pool::open_session;
use crate::postgres::query_error::IntoStoreError as _;

const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Refuses a pooler that uses transaction pooling.
pub(super) async fn refuse_pooler(connector: &Connector) -> Result<(), Error> {
    let to_store_error = |error: tokio_postgres::Error| QueryError::from(error).into_store_error(&connector.target);
    let first_client = open_session(connector, PROBE_TIMEOUT).await?.client;
    let second_client = open_session(connector, PROBE_TIMEOUT).await?.client;
    first_client
        .batch_execute("SET noetl.mark = 'one'")
        .await
        .map_err(to_store_error)?;
    second_client
        .batch_execute("SET noetl.mark = 'two'")
        .await
        .map_err(to_store_error)?;
    for (client, mark) in [(&first_client, "one"), (&second_client, "two")] {
        let settings = client.simple_query("SELECT current_setting('noetl.mark', true)").await;
        let setting = settings
            .map_err(to_store_error)?
            .into_iter()
            .find_map(|message| match message {
                tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            });
        if setting.as_deref() != Some(mark) {
            return Err(Error::Pooler {
                location: connector.target.location(),
            });
        }
    }
    Ok(())
}
