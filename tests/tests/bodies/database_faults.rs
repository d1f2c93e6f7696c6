//! What goes wrong between a server and its database.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use results::contract::{log_line, noise_bytes, reference_to};
use results::{BodySource, BodyStore, LOG_BYTES_MAX, LogQuery, TaskLogs};
use tests::peers::{FaultProxy, PostgresServer};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::Notify;

use crate::database::PostgresBodyFixture;

const MIB: usize = 1024 * 1024;

/// A body that triggers an action while it is read.
pub(crate) struct InterceptedBody<F> {
    pub(crate) remaining: Bytes,
    /// The number of remaining bytes at which it does.
    pub(crate) acts_at_remaining: usize,
    pub(crate) action: Option<F>,
    /// Whether reading stops then.
    pub(crate) halts_after: bool,
}

impl<F: FnOnce() + Unpin> AsyncRead for InterceptedBody<F> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        if self.remaining.len() <= self.acts_at_remaining {
            if let Some(act) = self.action.take() {
                act();
            }
            if self.halts_after {
                return Poll::Pending;
            }
        }
        let count = buffer.remaining().min(self.remaining.len());
        let piece = self.remaining.split_to(count);
        buffer.put_slice(&piece);
        Poll::Ready(Ok(()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_put_leaves_no_body_and_its_chunks_are_deleted() {
    let shared = PostgresBodyFixture::new().await;
    let bodies = PostgresBodyFixture::open_store(shared.0.url()).await;
    let halted = Arc::new(Notify::new());
    let (body, halted_signal) = (noise_bytes(4 * MIB), halted.clone());
    let putting = tokio::spawn(async move {
        let mut intercepted = InterceptedBody {
            remaining: body,
            acts_at_remaining: MIB,
            action: Some(move || halted_signal.notify_one()),
            halts_after: true,
        };
        bodies.put(BodySource::Stream(&mut intercepted)).await
    });
    halted.notified().await;
    putting.abort();
    assert!(putting.await.unwrap_err().is_cancelled());
    let [pieces, heads, drafts] = shared.counts().await;
    assert!(pieces > 0, "it was under way");
    assert_eq!((heads, drafts), (0, 1));
    PostgresBodyFixture::open_store(shared.0.url()).await;
    assert_eq!(shared.counts().await[2], 1, "it may still be under way");
    shared
        .run_sql("UPDATE noetl.body_draft SET begun_at = 0 RETURNING 1::bigint")
        .await;
    PostgresBodyFixture::open_store(shared.0.url()).await;
    assert_eq!(shared.counts().await, [0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_stored_twice_at_once_has_its_chunks_once() {
    let shared = PostgresBodyFixture::new().await;
    let first_node = PostgresBodyFixture::open_store(shared.0.url()).await;
    let two = PostgresBodyFixture::open_store(shared.0.url()).await;
    let body = noise_bytes(3 * MIB);
    let (mut first, mut second) = (&body[..], &body[..]);
    let (first, second) = tokio::join!(
        first_node.put(BodySource::Stream(&mut first)),
        two.put(BodySource::Stream(&mut second)),
    );
    assert_eq!(first.unwrap(), second.unwrap());
    assert_eq!(shared.counts().await, [3, 1, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_breaks_during_a_transfer_is_replaced() {
    let shared = PostgresBodyFixture::new().await;
    let upstream = format!("127.0.0.1:{}", free_port());
    let proxy = FaultProxy::start(&upstream);
    let bodies = PostgresBodyFixture::open_store(shared.0.url_at(proxy.port())).await;
    let body = noise_bytes(4 * MIB);
    let mut intercepted = InterceptedBody {
        remaining: body.clone(),
        acts_at_remaining: 2 * MIB,
        action: Some(|| proxy.cut_connections()),
        halts_after: false,
    };
    let stored = bodies.put(BodySource::Stream(&mut intercepted)).await.unwrap();
    proxy.cut_connections();
    assert!(bodies.get(&reference_to(&stored)).await.unwrap() == body);
    assert_eq!(shared.counts().await, [4, 1, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreachable_database_is_a_retryable_error_without_a_password() {
    let shared = PostgresBodyFixture::new().await;
    let proxy = FaultProxy::start(&format!("127.0.0.1:{}", free_port()));
    let bodies = PostgresBodyFixture::open_store(shared.0.url_at(proxy.port())).await;
    let stored = bodies.put(BodySource::Bytes(noise_bytes(10))).await.unwrap();
    proxy.set_refusing(true);
    proxy.cut_connections();
    let error = bodies.get(&reference_to(&stored)).await.unwrap_err();
    assert_eq!(error.code(), "STORAGE_UNAVAILABLE");
    assert!(error.is_retryable());
    let url = shared.0.url();
    let password = url.split(['@', ':']).nth(2).unwrap();
    let mut text = format!("{error:?} {error}");
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text.push_str(&format!(" {error} {error:?}"));
        cause = error.source();
    }
    assert!(!text.contains(password), "{text}");
    proxy.set_refusing(false);
    assert!(bodies.get(&reference_to(&stored)).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_reported_and_no_draft_is_left() {
    let shared = PostgresBodyFixture::new().await;
    let bodies = PostgresBodyFixture::open_store(shared.0.url()).await;
    // The database refuses as it does when its volume is full.
    run_sql(
        &shared,
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = 'disk_full'; END $$; \
         CREATE TRIGGER full_disk BEFORE INSERT ON noetl.body_chunk EXECUTE FUNCTION full_disk()",
    )
    .await;
    for count in [10, 3 * MIB] {
        let error = bodies.put(BodySource::Bytes(noise_bytes(count))).await.unwrap_err();
        assert_eq!(error.code(), "STORAGE_FULL");
        assert!(error.is_retryable());
    }
    assert_eq!(shared.counts().await, [0, 0, 0]);
    run_sql(&shared, "DROP TRIGGER full_disk ON noetl.body_chunk").await;
    assert!(bodies.put(BodySource::Bytes(noise_bytes(10))).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_in_the_database_is_truncated_at_its_limit_with_a_notice() {
    let shared = PostgresBodyFixture::new().await;
    let logs = PostgresBodyFixture::open_store(shared.0.url()).await.logs();
    let long = log_line(&"x".repeat(MIB));
    for _ in 0..20 {
        logs.append(std::slice::from_ref(&long)).await.unwrap();
    }
    let query = LogQuery {
        limit: 100,
        ..LogQuery::default()
    };
    let lines = logs.read(long.execution, &query).await.unwrap().into_lines();
    let last = lines.last().unwrap();
    assert!(last.text.contains("the log is full"), "{}", last.text.len());
    let bytes: usize = lines.iter().map(|line| line.text.len()).sum();
    assert!(bytes as u64 <= LOG_BYTES_MAX + MIB as u64);
}

async fn run_sql(fixture: &PostgresBodyFixture, sql: &str) {
    let connected = tokio_postgres::connect(&fixture.0.url(), tokio_postgres::NoTls).await;
    let (client, connection) = connected.unwrap();
    tokio::spawn(connection);
    client.batch_execute(sql).await.unwrap();
}

fn free_port() -> u16 {
    let url = PostgresServer::shared().admin_url();
    url.rsplit(':').next().unwrap().parse().unwrap()
}
