//! Checks the configured server and the port for `noetl serve`.

use std::time::Duration;

use model::time::Time;
use serde::Deserialize;

use crate::app::App;
use crate::cli_error::CliError;
use crate::clock;
use crate::config::ServerAddress;
use crate::doctor::Check;
use crate::remote;

/// Maximum accepted difference between the clocks of client and server.
const SKEW_MAX: Duration = Duration::from_secs(2);

/// Health response of a server.
#[derive(Deserialize)]
struct ServerHealth {
    version: Option<String>,
    time: Option<Time>,
}

/// Checks the configured server, if any.
pub(crate) async fn check_server(app: &App) -> Option<Vec<Check>> {
    let address = app.settings.server.as_ref()?;
    Some(check_address(address).await)
}

async fn check_address(address: &ServerAddress) -> Vec<Check> {
    let servers = address.servers.join(", ");
    let address_text = match &address.context {
        Some(name) => format!("{servers} (context `{name}`)"),
        None => servers,
    };
    let remedy = "check that the server is running, its URL, and the access token";
    let failed = |message: String| {
        vec![Check::fail("server", format!("{address_text}: {message}"), remedy).with_unreachable_exit()]
    };
    let client = match remote::new_client(address) {
        Ok(client) => client,
        Err(problem) => return failed(problem.message),
    };
    let start = clock::now();
    let health: ServerHealth = match client.get("/api/health").await {
        Ok(health) => health,
        Err(error) => return failed(CliError::from(error).message),
    };
    let end = clock::now();
    let client_version = env!("CARGO_PKG_VERSION");
    let version = health.version.unwrap_or_else(|| "unknown".to_owned());
    let detail = format!("{address_text} is reachable, version {version}");
    let mut checks = vec![if version == client_version {
        Check::ok("server", detail)
    } else {
        let detail = format!("{detail}; this client has version {client_version}");
        Check::warn("server", detail, "use the same version on client and server")
    }];
    checks.extend(health.time.map(|server_time| check_clock_skew(server_time, start, end)));
    checks
}

/// Compares the server's clock with the local one.
fn check_clock_skew(server_time: Time, start: Time, end: Time) -> Check {
    let middle = i64::midpoint(start.0, end.0);
    let skew = Duration::from_micros(server_time.0.abs_diff(middle));
    let detail = format!("differs from the server's by {} ms", skew.as_millis());
    if skew > SKEW_MAX {
        Check::warn("clock", detail, "synchronize both clocks with NTP")
    } else {
        Check::ok("clock", detail)
    }
}

/// Checks whether a server can listen on this address.
pub(crate) async fn check_port(listen: &str) -> Check {
    match tokio::net::TcpListener::bind(listen).await {
        Ok(_) => Check::ok("port", format!("{listen} is free")),
        Err(error) => Check::warn(
            "port",
            format!("`noetl serve` cannot listen on {listen}: {error}"),
            "stop the process that uses this port, or choose another one with --listen",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::CheckStatus;

    #[test]
    fn clock_skew_is_measured_from_the_middle_of_the_call() {
        let second = 1_000_000;
        let at = |seconds: i64| check_clock_skew(Time(seconds * second), Time(0), Time(2 * second));
        assert_eq!(
            (at(1).state, at(1).detail.as_str()),
            (CheckStatus::Ok, "differs from the server's by 0 ms")
        );
        assert_eq!(at(9).state, CheckStatus::Warn);
        assert_eq!(at(-9).state, CheckStatus::Warn);
    }
}
