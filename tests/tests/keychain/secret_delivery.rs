//! Who can read a credential: only the worker with a current claim, and only credentials that its step declares.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::id::{LeaseEpoch, WorkerId};
use serde_json::{Value, json};
use server::{
    Actor, FetchError, FetchRequest, FetchResponse, KeychainConfig, MasterKey, MasterKeys, SecretFetcher, Server,
    SubmitError, SubmitRequest,
};
use store::{AuditOutcome, SqliteStore, Store};
use tempfile::TempDir;
use tests::stack::server_config;
use wire::api::{ClaimRequest, SecretsRequest, SetCredentialRequest};
use wire::{ClaimedCommand, Error};

const PLAYBOOK: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: uses, path: uses}
workload: {which: window}
keychain:
  - {name: token, kind: oauth2, scope: global, endpoint: "http://peer/token", client_id: me,
     client_secret: "{{ keychain.door.pin }}"}
workflow:
  - step: one
    tool: {kind: http, url: "http://peer", auth: door}
    next: two
  - step: two
    tool: {kind: http, url: "http://peer", auth: "{{ workload.which }}"}
    next: three
  - step: three
    tool: {kind: http, url: "http://peer", auth: token}
"#;

/// A fake endpoint that counts its requests.
#[derive(Default)]
struct CountingEndpoint(std::sync::Mutex<Vec<Value>>);

#[async_trait]
impl SecretFetcher for CountingEndpoint {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        let status = match request.url.strip_prefix("http://peer/") {
            Some("hangs") => std::future::pending().await,
            Some("late") => {
                let reason = "timed out".to_owned();
                let is_transient = true;
                return Err(FetchError { reason, is_transient });
            }
            Some(status) => status.parse().unwrap_or(200),
            None => 200,
        };
        let mut requests = self.0.lock().unwrap();
        requests.push(request.form.unwrap_or_default());
        let body = json!({"access_token": format!("tok-canary-{}", requests.len()), "expires_in": 3600});
        Ok(FetchResponse { status, body })
    }
}

struct KeychainFixture {
    server: Server,
    store: Arc<dyn Store>,
    endpoint: Arc<CountingEndpoint>,
    _dir: TempDir,
}

fn test_actor() -> Actor {
    Actor {
        name: "test".to_owned(),
        source: None,
    }
}

async fn start_fixture() -> KeychainFixture {
    let dir = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(dir.path()).unwrap());
    let endpoint = Arc::new(CountingEndpoint::default());
    let bodies = results::DirBodyStore::open(&dir.path().join("bodies")).unwrap();
    let server = Server::start(server::Config {
        keychain: KeychainConfig {
            keys: MasterKeys::Given {
                current: MasterKey::generate(),
                old: None,
            },
            fetcher: Some(endpoint.clone()),
            ..KeychainConfig::default()
        },
        ..server_config(store.clone(), Arc::new(bodies))
    })
    .unwrap();
    for name in ["door", "window", "cellar"] {
        let request = SetCredentialRequest {
            name: name.to_owned(),
            kind: "bearer".to_owned(),
            data: json!({"pin": format!("canary-{name}"), "token": "t"}),
        };
        server.set_credential(&request, test_actor()).await.unwrap();
    }
    KeychainFixture {
        server,
        store,
        endpoint,
        _dir: dir,
    }
}

impl KeychainFixture {
    async fn submit(&self, text: &str) -> Result<model::id::ExecutionId, SubmitError> {
        self.submit_with(text, json!({})).await
    }

    async fn submit_with(&self, text: &str, payload: Value) -> Result<model::id::ExecutionId, SubmitError> {
        let submission = SubmitRequest {
            name: "uses".to_owned(),
            text: text.to_owned(),
            payload: Some(model::raw::RawJson::from_serializable(&payload)),
            labels: model::labels::Labels::default(),
        };
        self.server.submit(submission).await
    }

    async fn claim_command(&self) -> ClaimedCommand {
        let transport = self.server.transport();
        let request = wire::api::HeartbeatRequest::new(WorkerId("w".into()), Vec::new());
        transport.heartbeat(&request).await.unwrap();
        let request = ClaimRequest {
            worker: WorkerId("w".into()),
            pool: "default".into(),
            kinds: None,
            max: 1,
            wait_ms: 30_000,
        };
        transport.claim(&request).await.unwrap().remove(0)
    }

    async fn request_secrets(&self, claimed: &ClaimedCommand, names: &[&str]) -> Result<Vec<Value>, Error> {
        let request = SecretsRequest {
            worker: WorkerId("w".into()),
            command: claimed.command.id,
            lease_epoch: claimed.lease_epoch,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        let given = self.server.transport().secrets(&request).await?;
        Ok(given.iter().map(|given| given.value.reveal().clone()).collect())
    }
}

fn error_code<T>(result: Result<T, Error>) -> String {
    match result.err().expect("no credential is returned") {
        Error::SecretsRefused { code, .. } => code,
        Error::Fenced(_) => "FENCED".to_owned(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_gets_only_the_secrets_that_its_step_declares() {
    let fixture = start_fixture().await;
    fixture.submit(PLAYBOOK).await.unwrap();
    let claimed = fixture.claim_command().await;
    let door = fixture.request_secrets(&claimed, &["door"]).await.unwrap();
    assert_eq!(door, [json!({"pin": "canary-door", "token": "t", "type": "bearer"})]);
    for name in ["cellar", "window", "token", "nowhere"] {
        let refused = error_code(fixture.request_secrets(&claimed, &["door", name]).await);
        assert_eq!(refused, "CREDENTIAL_NOT_DECLARED", "{name}");
    }
    let audit = fixture.store.audit_entries(0, 100).await.unwrap();
    let uses: Vec<_> = audit
        .iter()
        .filter(|row| row.entry.action == *"credential.use")
        .map(|row| (row.entry.resource.as_str(), row.entry.outcome))
        .collect();
    assert_eq!(uses[0], ("door", AuditOutcome::Done));
    assert_eq!(uses[1], ("(undeclared name)", AuditOutcome::Denied));
    assert!(!format!("{audit:?}").contains("canary"));
    assert!(uses.iter().all(|(name, _)| *name != "nowhere"));
    let door = fixture.store.sealed_store().credential("door").await.unwrap().unwrap();
    assert!(door.last_used_at.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_claim_or_another_worker_gets_no_secret() {
    let fixture = start_fixture().await;
    fixture.submit(PLAYBOOK).await.unwrap();
    let claimed = fixture.claim_command().await;
    let stale = ClaimedCommand {
        lease_epoch: LeaseEpoch(claimed.lease_epoch.0 + 1),
        ..claimed.clone()
    };
    assert_eq!(error_code(fixture.request_secrets(&stale, &["door"]).await), "FENCED");
    let request = SecretsRequest {
        worker: WorkerId("another".into()),
        command: claimed.command.id,
        lease_epoch: claimed.lease_epoch,
        names: vec!["door".to_owned()],
    };
    assert_eq!(error_code(fixture.server.transport().secrets(&request).await), "FENCED");
    fixture
        .store
        .release_claim(claimed.command.id, claimed.lease_epoch)
        .await
        .unwrap();
    assert_eq!(error_code(fixture.request_secrets(&claimed, &["door"]).await), "FENCED");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_comes_from_a_template_is_rendered_on_the_server() {
    let fixture = start_fixture().await;
    let one = PLAYBOOK.find("  - step: one").unwrap();
    let two = PLAYBOOK.find("  - step: two").unwrap();
    let text = [&PLAYBOOK[..one], &PLAYBOOK[two..]].concat();
    fixture.submit(&text).await.unwrap();
    let claimed = fixture.claim_command().await;
    assert_eq!(claimed.command.run.step, *"two");
    let window = fixture.request_secrets(&claimed, &["window"]).await.unwrap();
    assert_eq!(window[0]["pin"], "canary-window");
    let token = fixture.request_secrets(&claimed, &["token"]).await.unwrap();
    assert_eq!(token[0]["access_token"], "tok-canary-1");
    assert_eq!(
        error_code(fixture.request_secrets(&claimed, &["cellar"]).await),
        "CREDENTIAL_NOT_DECLARED"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_fetched_once_and_stored_encrypted_for_its_scope() {
    let fixture = start_fixture().await;
    fixture.submit(PLAYBOOK).await.unwrap();
    fixture.submit(PLAYBOOK).await.unwrap();
    let requests = fixture.endpoint.0.lock().unwrap().clone();
    let expected = json!({"grant_type": "client_credentials", "client_id": "me", "client_secret": "canary-door"});
    assert_eq!(requests, [expected]);
    let value = fixture
        .store
        .sealed_store()
        .keychain("playbook:uses", "token")
        .await
        .unwrap();
    let value = value.expect("the value is stored");
    assert!(value.expires_at.is_some());
    assert!(!String::from_utf8_lossy(&value.sealed.data).contains("canary"));
    let local = PLAYBOOK.replace("scope: global, ", "");
    fixture.submit(&local).await.unwrap();
    // Values that all runs of the playbook share come first.
    assert_eq!(fixture.endpoint.0.lock().unwrap().len(), 1);
    fixture
        .store
        .sealed_store()
        .remove_keychain("playbook:uses", "token")
        .await
        .unwrap();
    fixture.submit(&local).await.unwrap();
    fixture.submit(&local).await.unwrap();
    assert_eq!(fixture.endpoint.0.lock().unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cached_token_is_only_used_for_an_equal_request() {
    let fixture = start_fixture().await;
    let text = PLAYBOOK.replace("http://peer/token", "http://peer/{{ workload.which }}");
    for which in ["window", "window", "cellar", "cellar"] {
        let submitted = fixture.submit_with(&text, json!({ "which": which })).await;
        submitted.unwrap();
    }
    assert_eq!(fixture.endpoint.0.lock().unwrap().len(), 2);
    let other = text.replace("client_id: me", "client_id: you");
    let payload = json!({"which": "cellar"});
    fixture.submit_with(&other, payload).await.unwrap();
    let requests = fixture.endpoint.0.lock().unwrap().clone();
    assert_eq!(requests.len(), 3);
    assert_eq!(requests[2]["client_id"], "you");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_hangs_does_not_block_another() {
    let fixture = Arc::new(start_fixture().await);
    let text = PLAYBOOK.replace("http://peer/token", "http://peer/{{ workload.which }}");
    let (hanging, hangs) = (fixture.clone(), text.clone());
    let hanging = tokio::spawn(async move {
        let payload = json!({"which": "hangs"});
        hanging.submit_with(&hangs, payload).await
    });
    let payload = json!({"which": "window"});
    let submitted = fixture.submit_with(&text, payload);
    let submitted = tokio::time::timeout(Duration::from_secs(30), submitted).await;
    submitted.expect("the request does not wait").unwrap();
    hanging.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_endpoint_is_distinguished_from_a_refusal() {
    let fixture = start_fixture().await;
    for (which, code) in [
        ("503", "KEYCHAIN_UNAVAILABLE"),
        ("429", "KEYCHAIN_UNAVAILABLE"),
        ("late", "KEYCHAIN_UNAVAILABLE"),
        ("403", "KEYCHAIN_UNRESOLVED"),
    ] {
        let text = PLAYBOOK.replace("http://peer/token", &format!("http://peer/{which}"));
        let SubmitError::Failed(error) = fixture.submit(&text).await.unwrap_err() else {
            panic!("the run does not start");
        };
        assert_eq!(error.code(), code, "{which}");
        assert_eq!(error.is_transient(), code == "KEYCHAIN_UNAVAILABLE");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_does_not_quote_rendered_values() {
    let fixture = start_fixture().await;
    for entry in [
        "kind: env, map: {a: \"{{ keychain.door.pin }}\"}",
        "kind: vault, provider: \"{{ keychain.door.pin }}\", path: a",
        "kind: credential, credential: \"{{ keychain.door.pin }}\"",
    ] {
        let text = PLAYBOOK.replace("keychain:\n", &format!("keychain:\n  - {{name: first, {entry}}}\n"));
        let text = text.replace("auth: token", "auth: first");
        let SubmitError::Failed(error) = fixture.submit(&text).await.unwrap_err() else {
            panic!("the run does not start");
        };
        assert_eq!(error.code(), "KEYCHAIN_UNRESOLVED");
        assert!(!error.to_string().contains("canary"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_cannot_open_what_it_names_is_refused_by_name() {
    let fixture = start_fixture().await;
    let refused = |text: String| {
        let fixture = &fixture;
        async move {
            match fixture.submit(&text).await.unwrap_err() {
                SubmitError::Failed(error) => (error.code().to_owned(), error.to_string()),
                other => panic!("{other:?}"),
            }
        }
    };
    let (code, message) = refused(PLAYBOOK.replace("auth: door", "auth: attic")).await;
    assert_eq!(code, "CREDENTIAL_NOT_FOUND");
    assert!(message.contains("`attic`"), "{message}");
    for (entry, reason) in [
        ("kind: env, map: {a: HOME}", "NOETL_SECRET_"),
        ("kind: file, path: ../x", "NOETL_SECRETS_DIR"),
        ("kind: vault, path: a/b", "NOETL_VAULT_ADDR"),
        (
            "kind: static, data: {a: \"{{ keychain.token.x }}\"}",
            "must be declared before",
        ),
    ] {
        let text = PLAYBOOK.replace("keychain:\n", &format!("keychain:\n  - {{name: first, {entry}}}\n"));
        let text = text.replace("auth: token", "auth: first");
        let (code, message) = refused(text).await;
        assert_eq!(code, "KEYCHAIN_UNRESOLVED", "{message}");
        assert!(message.contains("`first`") && message.contains(reason), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unused_entry_does_not_prevent_a_run_from_starting() {
    let fixture = start_fixture().await;
    let broken = PLAYBOOK.replace("http://peer/token", "http://peer/403");
    let unused = broken.replace("auth: token", "auth: door");
    fixture.submit(&unused).await.unwrap();
    assert_eq!(fixture.endpoint.0.lock().unwrap().len(), 0);
    let rendered = unused.replace("workload: {which: window}", "workload: {which: token}");
    for text in [
        broken,
        rendered,
        unused.replace(
            "auth: door}",
            "auth: door, input: {all: '{{ keychain[workload.which] }}'}}",
        ),
    ] {
        let refused = fixture.submit(&text).await.unwrap_err();
        let SubmitError::Failed(error) = refused else {
            panic!("the run does not start");
        };
        assert_eq!(error.code(), "KEYCHAIN_UNRESOLVED", "{text}");
    }
}
