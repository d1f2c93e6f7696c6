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
    let named =
        |error: tokio_postgres::Error| QueryError::from(error).into_store_error(&connector.target);
    let one = open_session(connector, PROBE_TIMEOUT).await?.client;
    let two = open_session(connector, PROBE_TIMEOUT).await?.client;
    one.batch_execute("SET noetl.mark = 'one'")
        .await
        .map_err(named)?;
    two.batch_execute("SET noetl.mark = 'two'")
        .await
        .map_err(named)?;
    for (client, mark) in [(&one, "one"), (&two, "two")] {
        let shown = client
            .simple_query("SELECT current_setting('noetl.mark', true)")
            .await;
        let found = shown
            .map_err(named)?
            .into_iter()
            .find_map(|message| match message {
                tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            });
        if found.as_deref() != Some(mark) {
            return Err(Error::Pooler {
                location: connector.target.location(),
            });
        }
    }
    Ok(())
}
