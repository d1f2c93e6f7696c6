//! What the engine says of itself, on standard error, when asked.

use tracing_subscriber::EnvFilter;

use crate::config::Environment;

/// Starts to print traces if `-v` or `NOETL_LOG` asks for them.
pub(crate) fn start(verbose: u8, environment: &Environment, color: bool) {
    let wanted = environment.get("NOETL_LOG").map(str::to_owned);
    let wanted = wanted.or(match verbose {
        0 => None,
        1 => Some("info".to_owned()),
        2 => Some("debug".to_owned()),
        _ => Some("trace".to_owned()),
    });
    let Some(filter) = wanted else { return };
    let filter = EnvFilter::builder().parse_lossy(filter);
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(color)
        .with_writer(std::io::stderr)
        .finish();
    // Only the first subscriber of a process counts; this is it.
    let _ = tracing::subscriber::set_global_default(subscriber);
}
