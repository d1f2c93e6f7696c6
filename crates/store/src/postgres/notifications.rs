//! Change notifications between processes: NOTIFY after a commit, LISTEN while waiting, on a connection of their own.
//!
//! A notification is not part of a commit, because the database serializes transactions that notify. A lost
//! notification delays others by half a second, but loses no work.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postgres::{Connector, QueryError};
use tokio::sync::{Notify, watch};
use tokio_postgres::{AsyncMessage, Client};

use crate::error::Error;
use crate::postgres::pool::limit_wait;
use crate::postgres::query_error::IntoStoreError as _;
use crate::rows::OwnerId;

/// Minimum interval between notifications.
const NOTIFY_INTERVAL: Duration = Duration::from_millis(10);

/// Maximum time to wait for a notification; callers then check again.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// Connects committing tasks, waiting tasks, and the connection.
#[derive(Default)]
pub(super) struct ChangeNotifier {
    local_change: Notify,
    remote_change: Notify,
    waiter_count: AtomicUsize,
}

/// Counts a waiting task while it waits.
struct WaiterCount<'h>(&'h AtomicUsize);

impl Drop for WaiterCount<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ChangeNotifier {
    /// Schedules a notification that this process changed something.
    pub(super) fn notify_peers(&self) {
        self.local_change.notify_one();
    }

    /// Handles a notification of another process. If no task waits, it is stored for the next one that does.
    fn on_notification(&self) {
        if self.waiter_count.load(Ordering::Relaxed) == 0 {
            self.remote_change.notify_one();
        } else {
            self.remote_change.notify_waiters();
        }
    }

    /// Waits for a notification, at most `WAIT_MAX`.
    pub(super) async fn wait(&self) {
        self.waiter_count.fetch_add(1, Ordering::Relaxed);
        let _waiting = WaiterCount(&self.waiter_count);
        // After a timeout, the caller checks again as well.
        let _ = tokio::time::timeout(WAIT_MAX, self.remote_change.notified()).await;
    }
}

/// Listens and sends notifications until stopped; replaces a broken connection.
pub(super) async fn run_notifications(
    notifier: Arc<ChangeNotifier>,
    connector: Connector,
    owner: OwnerId,
    mut stop: watch::Receiver<()>,
) {
    loop {
        let ended = tokio::select! {
            // The store dropped the sender.
            _ = stop.changed() => return,
            ended = serve_connection(&notifier, &connector, &owner) => ended,
        };
        if let Err(error) = ended {
            tracing::debug!(
                error = crate::error::error_chain(&error),
                "notification connection lost; reconnecting"
            );
        }
        notifier.on_notification();
        tokio::select! {
            _ = stop.changed() => return,
            () = tokio::time::sleep(WAIT_MAX) => {}
        }
    }
}

async fn serve_connection(notifier: &ChangeNotifier, connector: &Connector, owner: &OwnerId) -> Result<(), Error> {
    let (client, mut connection) = connector
        .connect()
        .await
        .map_err(|error| error.into_store_error(&connector.target))?;
    let listening = async {
        loop {
            match poll_fn(|cx| connection.poll_message(cx)).await {
                Some(Ok(AsyncMessage::Notification(notification))) if notification.payload() != &*owner.0 => {
                    notifier.on_notification();
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return Ok(()),
            }
        }
    };
    let to_store_error = |error: tokio_postgres::Error| QueryError::from(error).into_store_error(&connector.target);
    tokio::select! {
        ended = listening => ended.map_err(to_store_error),
        ended = send_notification(notifier, connector, &client, owner) => ended,
    }
}

async fn send_notification(
    notifier: &ChangeNotifier,
    connector: &Connector,
    client: &Client,
    owner: &OwnerId,
) -> Result<(), Error> {
    let to_store_error = |error: tokio_postgres::Error| QueryError::from(error).into_store_error(&connector.target);
    let listen = client.batch_execute("LISTEN noetl");
    limit_wait(connector, listen).await?.map_err(to_store_error)?;
    let prepare = client.prepare("SELECT pg_notify('noetl', $1)");
    let notify = limit_wait(connector, prepare).await?.map_err(to_store_error)?;
    // Changes from before LISTEN are checked for once.
    notifier.on_notification();
    loop {
        notifier.local_change.notified().await;
        let name: &(dyn tokio_postgres::types::ToSql + Sync) = &&*owner.0;
        let values = [name];
        let notifying = client.query(&notify, &values);
        limit_wait(connector, notifying).await?.map_err(to_store_error)?;
        tokio::time::sleep(NOTIFY_INTERVAL).await;
    }
}
