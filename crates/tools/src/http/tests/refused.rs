//! Blocked addresses: no request reaches the canary server, however the address is spelled, redirected to or resolved.

use std::collections::VecDeque;
use std::net::SocketAddr;

use async_trait::async_trait;

use super::*;
use crate::http::guard::HostLookup;

/// Every line is a spelling of a blocked address; `{port}` is the port of the canary server.
const CORPUS: &str = include_str!("corpus.txt");

/// Returns the next list of addresses for each lookup, and repeats the last one.
struct ScriptedLookup(Mutex<VecDeque<Vec<SocketAddr>>>);

impl ScriptedLookup {
    fn new(responses: &[&[&str]]) -> Arc<Self> {
        let responses = responses.iter().map(|list| {
            let list = list.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 0));
            list.collect()
        });
        Arc::new(Self(Mutex::new(responses.collect())))
    }
}

#[async_trait]
impl HostLookup for ScriptedLookup {
    async fn resolve_host(&self, _host: &str) -> std::io::Result<Vec<SocketAddr>> {
        let mut responses = self.0.lock().unwrap();
        let response = responses.front().unwrap().clone();
        if responses.len() > 1 {
            responses.pop_front();
        }
        Ok(response)
    }
}

fn closed_network() -> NetworkConfig {
    NetworkConfig {
        allow_private: false,
        ..NetworkConfig::default()
    }
}

fn test_limits() -> HttpLimits {
    HttpLimits {
        connect: Duration::from_millis(300),
        total: Duration::from_secs(5),
        ..HttpLimits::default()
    }
}

fn guarded_tool(network: &NetworkConfig) -> HttpTool {
    HttpTool::new(Arc::new(HttpClients::new(test_limits(), network)), std::env::temp_dir())
}

/// A server on every loopback address that counts connections.
async fn start_canary() -> (u16, Arc<Mutex<usize>>) {
    let v4 = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = v4.local_addr().unwrap().port();
    let connections = Arc::new(Mutex::new(0));
    let v6 = TcpListener::bind(("::1", port)).await.ok();
    for listener in [Some(v4), v6].into_iter().flatten() {
        let connections = connections.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                *connections.lock().unwrap() += 1;
                tokio::spawn(async move {
                    read_request(&mut stream).await;
                    let response = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\ngot";
                    let _ = stream.write_all(response).await;
                });
            }
        });
    }
    (port, connections)
}

#[tokio::test]
async fn no_spelling_of_a_blocked_address_is_reached() {
    let (port, connections) = start_canary().await;
    let tool = guarded_tool(&closed_network());
    let mut count = 0;
    for line in CORPUS.lines() {
        let url = line.replace("{port}", &port.to_string());
        let outcome = run_tool(&tool, build_call("http", json!({"url": url}), json!({}))).await;
        let code = &expect_error(&outcome).code;
        let refusals = ["HTTP_ADDRESS_BLOCKED", "TOOL_INPUT", "HTTP_CONNECT"];
        assert!(refusals.contains(&code.as_str()), "{line}: {code}");
        count += 1;
    }
    assert!(count >= 150, "{count} forms");
    assert_eq!(*connections.lock().unwrap(), 0);
    // Check that the canary server is reachable when it is allowed.
    let open = guarded_tool(&NetworkConfig::default());
    let outcome = run_tool(
        &open,
        build_call("http", json!({"url": format!("http://127.1:{port}/")}), json!({})),
    )
    .await;
    assert_eq!(expect_result(outcome)["data"], "got");
}

#[tokio::test]
async fn every_redirect_is_checked_like_the_first_address() {
    let (port, connections) = start_canary().await;
    let server = Redirector::start().await;
    let network = NetworkConfig {
        allowed_targets: vec![format!("127.0.0.1:{}", server.port).parse().unwrap()],
        ..closed_network()
    };
    let tool = guarded_tool(&network);
    for status in [301, 302, 303, 307, 308] {
        for target in [
            format!("http://127.0.0.1:{port}/"),
            format!("http://localhost:{port}/"),
            format!("//127.0.0.1:{port}/"),
            format!("http://[::ffff:127.0.0.1]:{port}/"),
            format!("http://2130706433:{port}/"),
            format!("\\\\127.0.0.1:{port}\\"),
            format!("https://127.0.0.1:{port}/"),
            "http://169.254.169.254/latest/".to_owned(),
            "http://metadata.google.internal/".to_owned(),
            "file:///etc/passwd".to_owned(),
            format!("gopher://127.0.0.1:{port}/"),
            "ftp://93.184.216.34/".to_owned(),
            "data:text/plain,x".to_owned(),
        ] {
            let params = json!({"status": status, "to": target});
            let fields = json!({"url": format!("http://127.0.0.1:{}/", server.port), "params": params});
            let outcome = run_tool(&tool, build_call("http", fields, json!({}))).await;
            assert_eq!(expect_error(&outcome).code, "HTTP_ADDRESS_BLOCKED", "{status} {target}");
        }
    }
    assert_eq!(*connections.lock().unwrap(), 0);
    assert_eq!(*server.request_count.lock().unwrap(), 5 * 13);
}

#[tokio::test]
async fn a_name_that_later_resolves_to_a_private_address_is_blocked() {
    let (port, connections) = start_canary().await;
    let public = "93.184.216.34";
    for responses in [
        &[&[public][..], &["127.0.0.1"][..]][..],
        &[&[public, "127.0.0.1"][..]][..],
        &[&["127.0.0.1", public][..]][..],
        &[&[public, "::1"][..]][..],
        &[&["::ffff:127.0.0.1"][..]][..],
        &[&["0.0.0.0"][..]][..],
    ] {
        let clients = HttpClients::new(test_limits(), &closed_network()).with_lookup(ScriptedLookup::new(responses));
        let tool = HttpTool::new(Arc::new(clients), std::env::temp_dir());
        for _ in 0..responses.len() {
            let url = format!("http://rebinding.example:{port}/");
            let outcome = run_tool(&tool, build_call("http", json!({"url": url}), json!({}))).await;
            let code = expect_error(&outcome).code.clone();
            let refusals = ["HTTP_ADDRESS_BLOCKED", "HTTP_CONNECT", "TIMEOUT"];
            assert!(refusals.contains(&code.as_str()), "{responses:?}: {code}");
        }
    }
    assert_eq!(*connections.lock().unwrap(), 0);
}

#[tokio::test]
async fn the_server_of_noetl_is_blocked_even_if_private_addresses_are_allowed() {
    let (port, connections) = start_canary().await;
    let network = NetworkConfig {
        protected_addresses: vec![format!("127.0.0.1:{port}").parse().unwrap()],
        ..NetworkConfig::default()
    };
    for host in ["127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]", "127.1"] {
        let url = format!("http://{host}:{port}/");
        let outcome = run_tool(
            &guarded_tool(&network),
            build_call("http", json!({"url": url}), json!({})),
        )
        .await;
        assert_eq!(expect_error(&outcome).code, "HTTP_ADDRESS_BLOCKED", "{host}");
    }
    assert_eq!(*connections.lock().unwrap(), 0);
    let opened = NetworkConfig {
        allowed_targets: vec![format!("localhost:{port}").parse().unwrap()],
        ..network
    };
    let url = format!("http://localhost:{port}/");
    let outcome = run_tool(
        &guarded_tool(&opened),
        build_call("http", json!({"url": url}), json!({})),
    )
    .await;
    assert_eq!(expect_result(outcome)["data"], "got");
}

/// A server that redirects to the target in its query.
struct Redirector {
    port: u16,
    request_count: Arc<Mutex<usize>>,
}

impl Redirector {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let request_count = Arc::new(Mutex::new(0));
        let count = request_count.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let count = count.clone();
                tokio::spawn(async move {
                    while let Some(request) = read_request(&mut stream).await {
                        *count.lock().unwrap() += 1;
                        let path = request.split(' ').nth(1).unwrap();
                        let url = reqwest::Url::parse(&format!("http://x{path}")).unwrap();
                        let query = |wanted: &str| {
                            let mut pairs = url.query_pairs();
                            let address = pairs.find(|(name, _)| name == wanted);
                            address.unwrap().1.into_owned()
                        };
                        let (status, to) = (query("status"), query("to"));
                        let head = format!("HTTP/1.1 {status} -\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n");
                        let _ = stream.write_all(head.as_bytes()).await;
                    }
                });
            }
        });
        Self { port, request_count }
    }
}

#[tokio::test]
async fn files_of_noetl_are_not_uploaded() {
    let dir = tempfile::tempdir().unwrap();
    let (own, linked) = (dir.path().join("master.key"), dir.path().join("other"));
    std::fs::write(&own, "canary").unwrap();
    std::fs::hard_link(&own, &linked).unwrap();
    let clients = HttpClients::new(HttpLimits::default(), &NetworkConfig::default());
    let tool = HttpTool::new(Arc::new(clients), std::env::temp_dir()).with_forbidden_files(vec![own.clone()]);
    for path in [own, linked] {
        let fields = json!({"url": "http://127.0.0.1:9/", "method": "POST", "files": {"f": path}});
        let outcome = run_tool(&tool, build_call("http", fields, json!({}))).await;
        assert_eq!(expect_error(&outcome).code, "DATABASE_FORBIDDEN");
    }
}
