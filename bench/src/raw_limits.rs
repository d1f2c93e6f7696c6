//! Raw limits: SQLite without the engine, on the same disk, in the same run.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::figure::median;

/// Number of commits for a latency.
const COMMITS: u32 = 400;

fn open_database(dir: &Path) -> anyhow::Result<Connection> {
    let db = Connection::open(dir.join("raw.db"))?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.execute_batch("CREATE TABLE IF NOT EXISTS log (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")?;
    Ok(db)
}

/// Median time of a commit of one row of `bytes` bytes.
pub(crate) fn measure_one_row_commit(bytes: usize) -> anyhow::Result<Duration> {
    let dir = tempfile::tempdir()?;
    let db = open_database(dir.path())?;
    let body = "x".repeat(bytes);
    let mut insert = db.prepare("INSERT INTO log (body) VALUES (?1)")?;
    let mut times = Vec::new();
    for _ in 0..COMMITS {
        let start = now();
        insert.execute([&body])?;
        times.push(start.elapsed());
    }
    Ok(median(times))
}

/// Inserted rows per second if `batch` rows share a commit.
pub(crate) fn measure_batched_rows(rows: &[String], batch: usize) -> anyhow::Result<f64> {
    let dir = tempfile::tempdir()?;
    let mut db = open_database(dir.path())?;
    let start = now();
    for chunk in rows.chunks(batch) {
        let transaction = db.transaction()?;
        {
            let mut insert = transaction.prepare_cached("INSERT INTO log (body) VALUES (?1)")?;
            for row in chunk {
                insert.execute([row])?;
            }
        }
        transaction.commit()?;
    }
    Ok(rows.len() as f64 / start.elapsed().as_secs_f64())
}

#[expect(clippy::disallowed_methods, reason = "benchmarks read the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
