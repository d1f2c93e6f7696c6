//! A server with a store of its own, listening on a free port.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use server::api::{AccessMode, ApiConfig, BoundListener, SystemConfig};
use server::{KeychainConfig, MasterKey, MasterKeys, Server, SingleSignOn};
use tempfile::TempDir;
use tests::stack::server_config;
use tokio_util::sync::CancellationToken;

const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A listening server; it stops with this value.
pub(crate) struct ApiFixture {
    pub(crate) url: String,
    pub(crate) server: Server,
    logs: Arc<dyn results::TaskLogs>,
    stop: CancellationToken,
    _dir: TempDir,
}

impl Drop for ApiFixture {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Response to a call.
#[derive(Debug)]
pub(crate) struct ApiResponse {
    pub(crate) status: StatusCode,
    pub(crate) body: Value,
}

impl ApiResponse {
    /// The stable code of an error.
    pub(crate) fn error_code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }
}

impl ApiFixture {
    /// A server without access control.
    pub(crate) async fn open() -> Self {
        Self::start(AccessMode::Open, |_| None).await
    }

    /// A server that requires access tokens.
    pub(crate) async fn guarded() -> Self {
        Self::start(AccessMode::Tokens, |_| None).await
    }

    /// A server with single sign-on, which depends on its URL.
    pub(crate) async fn with_single_sign_on(build: impl FnOnce(&str) -> SingleSignOn) -> Self {
        Self::start(AccessMode::Tokens, |url| Some(build(url))).await
    }

    async fn start(access: AccessMode, single_sign_on: impl FnOnce(&str) -> Option<SingleSignOn>) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory can be created");
        let store = store::SqliteStore::open(dir.path()).expect("a new store can be opened");
        let bodies = results::DirBodyStore::open(dir.path()).expect("the directory is empty");
        let logs = results::FileLogs::open(dir.path().join("logs")).expect("the directory is empty");
        let server = Server::start(server::Config {
            may_adopt: true,
            keychain: KeychainConfig {
                keys: MasterKeys::Given {
                    current: MasterKey::generate(),
                    old: None,
                },
                ..KeychainConfig::default()
            },
            ..server_config(Arc::new(store), Arc::new(bodies))
        })
        .expect("a server starts");
        let mut fixture = Self {
            url: String::new(),
            server,
            logs: Arc::new(logs),
            stop: CancellationToken::new(),
            _dir: dir,
        };
        fixture.url = fixture.listen(access, single_sign_on).await;
        fixture
    }

    /// Listens on another port, like another server on the same store. Returns its URL.
    pub(crate) async fn listen(
        &self,
        access: AccessMode,
        single_sign_on: impl FnOnce(&str) -> Option<SingleSignOn>,
    ) -> String {
        let listening = BoundListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listening.address());
        let config = ApiConfig {
            access,
            is_loopback: true,
            hosts: Vec::new(),
            cluster_secret: None,
            logs: Arc::clone(&self.logs),
            single_sign_on: single_sign_on(&url),
            system: SystemConfig {
                store_location: Some("the test directory".to_owned()),
                nats_address: Some("nats://nats:4222".to_owned()),
                ..SystemConfig::default()
            },
        };
        tokio::spawn(listening.serve(self.server.clone(), config, None, self.stop.clone()));
        url
    }

    /// Sends a request unchanged.
    pub(crate) async fn send(&self, method: Method, path: &str, token: Option<&str>, body: Option<&Value>) -> Response {
        let mut request = http_client().request(method, format!("{}{path}", self.url));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        request.send().await.expect("the server responds")
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> ApiResponse {
        read_response(self.send(Method::POST, path, None, Some(body)).await).await
    }

    pub(crate) async fn get(&self, path: &str) -> ApiResponse {
        read_response(self.send(Method::GET, path, None, None).await).await
    }

    /// Repeats a request about a run until it has ended; returns the last response.
    pub(crate) async fn wait_for_end(&self, path: &str) -> Value {
        loop {
            let run = self.get(path).await.body;
            if run["status"] != "RUNNING" {
                return run;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Creates an access token with this role.
    pub(crate) async fn create_token(&self, admin: &str, role: &str) -> String {
        let request = json!({"name": role, "role": role});
        let made = self.send(Method::POST, "/api/tokens", Some(admin), Some(&request));
        let made = read_response(made.await).await;
        assert_eq!(made.status, StatusCode::OK, "{:?}", made.body);
        made.body["token"].as_str().expect("a token").to_owned()
    }

    /// Starts a run of this playbook.
    pub(crate) async fn execute(&self, playbook: &str) -> String {
        let started = self.post("/api/execute", &json!({"playbook": playbook})).await;
        assert_eq!(started.status, StatusCode::OK, "{:?}", started.body);
        started.body["execution_id"]
            .as_str()
            .expect("the response has an ID")
            .to_owned()
    }
}

pub(crate) async fn read_response(response: Response) -> ApiResponse {
    let status = response.status();
    let bytes = response.bytes().await.expect("a complete response");
    ApiResponse {
        status,
        body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
    }
}

/// A new client.
pub(crate) fn http_client() -> reqwest::Client {
    build_client(reqwest::Client::builder())
}

/// A new client that returns responses as they are sent, and keeps the header that describes their compression.
pub(crate) fn plain_client() -> reqwest::Client {
    build_client(reqwest::Client::builder().no_gzip())
}

fn build_client(builder: reqwest::ClientBuilder) -> reqwest::Client {
    // A process must choose its TLS provider once; a second attempt fails, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    builder.build().expect("a client without settings can be built")
}

/// Two steps, the second of which uses the result of the first.
pub(crate) const HELLO: &str = "
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: hello_world }
workflow:
  - step: start
    tool: { kind: shell, command: echo hello }
    next: [{ step: end }]
  - step: end
    tool: { kind: shell, command: \"echo {{ start.greeting }}\" }
";
