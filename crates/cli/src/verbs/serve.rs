//! `noetl serve`: runs the API server, drives runs, and runs tasks on local slots until a signal stops it.

use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use server::api::{AccessMode, ApiConfig, BoundListener, ServerTls};
use server::{Server, SingleSignOn};

use crate::app::{App, VerbResult};
use crate::args::{DriveArgs, ServeArgs};
use crate::cli_error::{CliError, Exit};
use crate::control_plane::{self, ControlPlane, ControlPlaneOptions, StoreLocation};
use crate::network_access::{NetworkAccess, resolve_addresses};
use crate::secret_fetcher::HttpToolFetcher;
use crate::signals;
use crate::system_config::describe_system;
use crate::worker_setup;

/// Maximum size of a response of the identity provider.
const PROVIDER_RESPONSE_BYTES_MAX: usize = 1024 * 1024;

/// Runs the server until a signal stops it.
pub(crate) async fn serve(app: &App, args: &ServeArgs) -> VerbResult {
    let tls = load_tls(args)?;
    let listener = BoundListener::bind(&args.listen)
        .await
        .map_err(|error| listen_error(&error))?;
    let address = listener.address();
    let is_loopback = address.ip().is_loopback();
    let single_sign_on = load_single_sign_on(app, args)?;
    let access = access_mode(app, args, is_loopback, tls.is_some(), single_sign_on.is_some())?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{address}");
    let advertised = args.advertise.clone().unwrap_or_else(|| advertised_url(&url, address));
    let mut store = control_plane::open_store(app, &advertised, args.nats.is_some()).await?;
    let is_cluster = store.is_cluster;
    let mut setup = ControlPlaneOptions::for_server(&store).await?;
    setup.bus = connect_bus(args).await?;
    setup.network_access = network_access(app, args, &[&url, &advertised], is_loopback && !is_cluster).await;
    store.reader.keychain = app.settings.keychain.server_config(&setup.network_access);
    setup.retention = Some(args.retention.unwrap_or(app.settings.retention));
    let cluster_secret = setup.cluster_secret.clone();
    let logs = store.logs.clone();
    let spills_to = worker_setup::describe_spill_location(&store.reader.bodies);
    let result_location = store.reader.bodies.spill_location();
    let system = describe_system(app, result_location, setup.retention, args.nats.as_deref());
    let mut session = ControlPlane::start_with(store.reader, setup)?;
    crate::memory::start_memory_trim();
    let slots = args
        .local_slots
        .unwrap_or(if is_cluster { 0 } else { app.settings.slots });
    let drive_args = DriveArgs {
        slots: Some(slots),
        allow_env: args.allow_env.clone(),
        ..DriveArgs::default()
    };
    session.allow_env(app, &drive_args);
    if slots > 0 {
        session.start_worker_for_kinds(app, &drive_args, Some(worker_setup::all_kinds(app)))?;
    }
    ensure_admin_token(app, access, &session.server).await?;
    let config = ApiConfig {
        access,
        is_loopback,
        hosts: accepted_hosts(args, is_loopback, single_sign_on.as_ref()),
        cluster_secret,
        logs,
        system,
        single_sign_on,
    };
    let stop = signals::cancel_on_signal();
    let slots = slots_message(slots, &url);
    app.output.info(&format!("listening on {url}   {slots}"));
    app.output.info(&match web_client::client() {
        Ok(_) => format!("web client   {url}/   API {url}/docs"),
        Err(reason) => format!("no web client: {reason}   API {url}/docs"),
    });
    app.output.info(&spills_to);
    let served = listener.serve(session.server.clone(), config, tls, stop).await;
    session.stop().await;
    served.map_err(|error| {
        let message = format!("server failed: {error}");
        CliError::new(Exit::Unreachable, "SERVER_BROKEN", message)
    })?;
    app.output.info("stopped");
    Ok(Exit::Done)
}

/// Returns the network access of tasks on this server: never to the server itself, its store or NATS.
async fn network_access(app: &App, args: &ServeArgs, urls: &[&str], allow_private: bool) -> NetworkAccess {
    let store = match control_plane::store_location(&app.settings) {
        StoreLocation::Postgres(_) => app.settings.store.to_str(),
        StoreLocation::Directory(_) => None,
    };
    let urls = urls.iter().copied().chain(store);
    NetworkAccess {
        allow_private,
        protected: resolve_addresses(urls.chain(args.nats.as_deref())).await,
    }
}

/// Connects to the NATS server of `--nats`, which may start later.
async fn connect_bus(args: &ServeArgs) -> Result<Option<Arc<dyn wire::Bus>>, CliError> {
    let Some(url) = &args.nats else {
        return Ok(None);
    };
    let nats = wire::NatsBus::connect(url).await.map_err(|error| {
        let message = format!("invalid NATS URL `{url}`: {}", cause_text(&error));
        CliError::new(Exit::Usage, "NATS_INVALID", message).help("use nats://HOST:PORT")
    })?;
    Ok(Some(Arc::new(nats)))
}

/// Joins the causes of an error, the nearest first.
fn cause_text(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    let causes = causes.map(ToString::to_string);
    let causes: Vec<String> = causes.filter(|cause| !cause.is_empty()).collect();
    if causes.is_empty() {
        return error.to_string();
    }
    causes.join(": ")
}

fn slots_message(slots: u32, url: &str) -> String {
    match slots {
        0 => format!("no local slots; start a worker: noetl worker --server {url}"),
        slots => format!("local slots: {slots}"),
    }
}

/// Returns the URL at which other servers reach this one. If it listens on all addresses, the host name is used.
fn advertised_url(url: &str, address: SocketAddr) -> String {
    if !address.ip().is_unspecified() {
        return url.to_owned();
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = match host.trim() {
        "" => "localhost",
        host => host,
    };
    let scheme = url.split("://").next().unwrap_or("http");
    format!("{scheme}://{host}:{}", address.port())
}

/// Builds single sign-on, if it is configured. The identity provider is contacted at the first sign-in.
fn load_single_sign_on(app: &App, args: &ServeArgs) -> Result<Option<SingleSignOn>, CliError> {
    let network = app.settings.network.network_config(true, Vec::new());
    let fetcher = HttpToolFetcher::new(network).with_response_limit(PROVIDER_RESPONSE_BYTES_MAX);
    app.settings
        .single_sign_on
        .build(&args.single_sign_on, Arc::new(fetcher))
}

/// Host names to accept besides the usual ones. Where names are restricted, the public name is accepted too.
fn accepted_hosts(args: &ServeArgs, is_loopback: bool, single_sign_on: Option<&SingleSignOn>) -> Vec<String> {
    let is_restricted = is_loopback || !args.host.is_empty();
    let public = single_sign_on.filter(|_| is_restricted);
    let public = public.map(|sign_on| sign_on.public_host().to_owned());
    args.host.iter().cloned().chain(public).collect()
}

/// Selects how clients authenticate. On a non-loopback address, they must, and TLS is required.
fn access_mode(
    app: &App,
    args: &ServeArgs,
    is_loopback: bool,
    has_tls: bool,
    has_single_sign_on: bool,
) -> Result<AccessMode, CliError> {
    if is_loopback {
        let must_sign_in = app.settings.token_file.is_some() || has_single_sign_on;
        return Ok(if must_sign_in {
            AccessMode::Tokens
        } else {
            AccessMode::Open
        });
    }
    if !has_tls && !args.behind_tls_proxy {
        let message = format!(
            "refusing to listen on {} without TLS: other machines can reach this address",
            args.listen
        );
        return Err(CliError::new(Exit::Usage, "TLS_REQUIRED", message)
            .help("pass --tls-cert and --tls-key, or --behind-tls-proxy if a reverse proxy terminates TLS")
            .help("or listen on 127.0.0.1"));
    }
    Ok(AccessMode::Tokens)
}

fn load_tls(args: &ServeArgs) -> Result<Option<ServerTls>, CliError> {
    let (Some(chain), Some(key)) = (&args.tls_cert, &args.tls_key) else {
        return Ok(None);
    };
    let read_file =
        |file: &Path| std::fs::read(file).map_err(|error| CliError::read_error(&file.display().to_string(), &error));
    let tls = ServerTls::new(&read_file(chain)?, &read_file(key)?);
    tls.map(Some)
        .map_err(|error| CliError::new(Exit::Usage, "TLS_INVALID", error.to_string()))
}

fn listen_error(error: &server::api::ListenError) -> CliError {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    let message = format!("{error}{}", cause.unwrap_or_default());
    CliError::new(Exit::Unreachable, "CANNOT_LISTEN", message)
        .help("another process may use this port; choose another one with --listen HOST:PORT")
}

/// Registers the admin token in the token file, or creates the first one and writes or prints it.
async fn ensure_admin_token(app: &App, access: AccessMode, server: &Server) -> Result<(), CliError> {
    if access == AccessMode::Open {
        return Ok(());
    }
    let existing = app.settings.token_file.as_deref().filter(|file| file.exists());
    if let Some(file) = existing {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(file);
        let text = text.map_err(|error| CliError::read_error(&name, &error))?;
        if text.trim().len() < 32 {
            let message = format!("`{name}` does not contain a token of at least 32 characters");
            return Err(CliError::new(Exit::Usage, "TOKEN_INVALID", message)
                .help(format!("replace its content: {}", new_token_message(&name))));
        }
        return Ok(server.store_admin_token(&text).await?);
    }
    let Some(token) = server.create_first_admin().await? else {
        return match &app.settings.token_file {
            None => Ok(()),
            Some(file) => {
                let name = file.display();
                let message = format!("token file `{name}` not found, but the store already has an admin token");
                let help = format!(
                    "restore the file, or add another admin token: {}",
                    new_token_message(&name.to_string())
                );
                Err(CliError::new(Exit::Usage, "TOKEN_MISSING", message).help(help))
            }
        };
    };
    match &app.settings.token_file {
        Some(file) => {
            write_secret(file, token.reveal())?;
            app.output.info(&format!("wrote the admin token to {}", file.display()));
        }
        None => {
            app.output.info(&format!(
                "admin token (save it now; it is not shown again): {}",
                token.reveal()
            ));
        }
    }
    Ok(())
}

/// Returns a shell command that writes a new token to a file; the server accepts it after its next start.
fn new_token_message(file: &str) -> String {
    format!("(umask 077; openssl rand -hex 32 > '{file}')")
}

/// Writes a file that only its owner can read.
fn write_secret(file: &Path, text: &str) -> Result<(), CliError> {
    let mut options = std::fs::OpenOptions::new();
    let created = options.write(true).create_new(true).mode(0o600).open(file);
    created
        .and_then(|mut out| writeln!(out, "{text}"))
        .map_err(|error| CliError::write_error(&file.display().to_string(), &error))
}
