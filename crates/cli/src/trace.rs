//! Log output on standard error, enabled by `-v` or `NOETL_LOG`.

use std::io::{self, Stderr, Write};

use model::userinfo::without_userinfo;
use tracing_subscriber::EnvFilter;

use crate::config::{Environment, variables};

/// Writer to standard error that removes passwords from URLs, because log lines of libraries may contain them.
struct RedactedStderr(Stderr);

impl Write for RedactedStderr {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        match without_userinfo(&text) {
            Some(cleaned) => self.0.write_all(cleaned.as_bytes())?,
            None => self.0.write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Crates that may log below `info`. Libraries may not, because they log addresses and headers unchanged.
const ENGINE_CRATES: &[&str] = &[
    "noetl",
    "model",
    "language",
    "postgres",
    "pipeline",
    "engine",
    "store",
    "results",
    "wire",
    "tools",
    "integrations",
    "worker",
    "server",
];

/// Builds a filter: `level` for the engine's own crates, `info` for everything else.
fn engine_filter(level: &str) -> String {
    let levels = ENGINE_CRATES.iter().map(|name| format!(",{name}={level}"));
    format!("info{}", levels.collect::<String>())
}

/// Starts logging if `-v` or `NOETL_LOG` is set.
pub(crate) fn start_tracing(verbose: u8, environment: &Environment, color: bool) {
    let filter = environment.get(variables::LOG).map(str::to_owned);
    let filter = filter.or(match verbose {
        0 => None,
        1 => Some("info".to_owned()),
        2 => Some(engine_filter("debug")),
        _ => Some(engine_filter("trace")),
    });
    let Some(filter) = filter else { return };
    let filter = EnvFilter::builder().parse_lossy(filter);
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(color)
        .with_writer(|| RedactedStderr(std::io::stderr()))
        .finish();
    // This cannot fail: no other subscriber is set in this process.
    let _ = tracing::subscriber::set_global_default(subscriber);
}
