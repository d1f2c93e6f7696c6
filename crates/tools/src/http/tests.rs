//! Tests of the `http` tool against a real server, with good and bad responses.

mod auth;
mod refused;
mod secure;
mod streaming;

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use model::outcome::{ErrorKind, Outcome};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::call::{Call, DiscardingLogSink, Tool};
use crate::http::{HttpClients, HttpTool};
use crate::network::NetworkConfig;
use crate::registry::HttpLimits;
use crate::testing::{build_call, expect_error, expect_result, run_tool};

/// A server that responds by path and records the requests.
struct TestHttpServer {
    base: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl TestHttpServer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (log, own) = (requests.clone(), base.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, log.clone(), own.clone()));
            }
        });
        Self { base, requests }
    }

    fn call(&self, path: &str, mut fields: Value) -> Call {
        fields["url"] = json!(format!("{}{path}", self.base));
        build_call("http", fields, json!({}))
    }

    fn last_request(&self) -> String {
        self.requests.lock().unwrap().last().unwrap().clone()
    }

    fn request_count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
}

async fn serve(mut stream: TcpStream, log: Arc<Mutex<Vec<String>>>, own: String) {
    while let Some(request) = read_request(&mut stream).await {
        let path = request.split(' ').nth(1).unwrap_or("/").to_owned();
        let count = {
            let mut log = log.lock().unwrap();
            log.push(request);
            log.len()
        };
        if send_response(&mut stream, &path, &own, count).await.is_err() {
            return;
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some(head) = text.find("\r\n\r\n") {
            let length = text.to_lowercase();
            let length = length
                .split("content-length: ")
                .nth(1)
                .and_then(|after| after.split("\r\n").next()?.parse::<usize>().ok())
                .unwrap_or(0);
            if bytes.len() >= head + 4 + length {
                return Some(text);
            }
        }
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(n) => bytes.extend_from_slice(&chunk[..n]),
        }
    }
}

async fn send_response(stream: &mut TcpStream, path: &str, own: &str, count: usize) -> std::io::Result<()> {
    let with = |status: &str, headers: &str, body: &[u8]| {
        let length = body.len();
        let mut all = format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n").into_bytes();
        all.extend_from_slice(body);
        all
    };
    let json = "content-type: application/json\r\n";
    let bytes = match path.split('?').next().unwrap_or(path) {
        "/json" => with("200 OK", json, b"{\"a\": [1]}"),
        "/text" => with("200 OK", "content-type: text/plain\r\n", b"hello"),
        "/bytes" => with("200 OK", "content-type: image/png\r\n", b"\x89PNG"),
        "/untyped" => with("200 OK", "", b"{\"b\": 2}"),
        "/broken" => with("200 OK", json, b"{\"a\":"),
        "/empty" => with("204 No Content", json, b""),
        "/busy" => with(
            "503 Service Unavailable",
            "retry-after: 7\r\ncontent-type: application/json\r\n",
            b"{\"why\": 1}",
        ),
        "/flaky" if count < 3 => with("500 Internal Server Error", "", b""),
        "/flaky" => with("200 OK", json, b"1"),
        "/slow_down" => with("429 Too Many Requests", "retry-after: 1.5\r\n", b""),
        "/secret" => with("401 Unauthorized", "", b""),
        "/gone" => with("404 Not Found", "", b""),
        "/wrong" => with("422 Unprocessable", "", b"bad"),
        "/loop" => with("302 Found", "location: /loop\r\n", b""),
        "/once" => with("302 Found", "location: /json\r\n", b""),
        "/away" => with(
            "307 Temporary",
            &format!("location: {}/json\r\n", own.replace("127.0.0.1", "localhost")),
            b"",
        ),
        "/metadata" => with("302 Found", "location: http://169.254.169.254/latest\r\n", b""),
        "/headers" => with("200 OK", &format!("x-long: {}\r\n", "x".repeat(200_000)), b""),
        "/bomb" => with("200 OK", "content-encoding: gzip\r\n", &compressed_bomb()),
        "/endless" => {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
                .await?;
            loop {
                stream.write_all(b"1000\r\n").await?;
                stream.write_all(&[b'x'; 4096]).await?;
                stream.write_all(b"\r\n").await?;
            }
        }
        "/loris" => {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nx")
                .await?;
            return std::future::pending().await;
        }
        "/silent" => return std::future::pending().await,
        "/cut" => {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nx")
                .await?;
            return Err(std::io::ErrorKind::BrokenPipe.into());
        }
        "/nonsense" => b"nonsense\r\n\r\n".to_vec(),
        other => with("200 OK", "content-type: text/plain\r\n", other.as_bytes()),
    };
    stream.write_all(&bytes).await
}

/// 80 MiB of zeros, compressed about 1000:1.
fn compressed_bomb() -> Vec<u8> {
    let mut child = std::process::Command::new("gzip")
        .arg("-c")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        for _ in 0..80 {
            stdin.write_all(&vec![0; 1024 * 1024]).unwrap();
        }
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output.stdout
}

fn http_tool() -> HttpTool {
    limited_tool(HttpLimits {
        memory_bytes_max: 1024 * 1024,
        ..HttpLimits::default()
    })
}

/// A tool that refuses private addresses.
fn public_only_tool() -> HttpTool {
    let network = NetworkConfig {
        allow_private: false,
        ..NetworkConfig::default()
    };
    HttpTool::new(
        Arc::new(HttpClients::new(HttpLimits::default(), &network)),
        std::env::temp_dir(),
    )
}

fn limited_tool(limits: HttpLimits) -> HttpTool {
    HttpTool::new(
        Arc::new(HttpClients::new(limits, &NetworkConfig::default())),
        std::env::temp_dir(),
    )
}

async fn get_outcome(server: &TestHttpServer, path: &str) -> Outcome {
    run_tool(&http_tool(), server.call(path, json!({}))).await
}

#[tokio::test]
async fn a_body_is_read_by_its_type() {
    let server = TestHttpServer::start().await;
    let outcome = get_outcome(&server, "/json").await;
    assert_eq!(outcome.facets().http.as_ref().unwrap()["status"], 200);
    let result = expect_result(outcome);
    assert_eq!(result["data"], json!({"a": [1]}));
    assert_eq!(result["status_code"], 200);
    assert_eq!(result["headers"]["content-type"], "application/json");
    assert_eq!(result["url"], format!("{}/json", server.base));
    assert!(result["elapsed_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(expect_result(get_outcome(&server, "/text").await)["data"], "hello");
    let bytes = expect_result(get_outcome(&server, "/bytes").await);
    assert_eq!(
        (&bytes["data"], &bytes["encoding"]),
        (&json!("iVBORw=="), &json!("base64"))
    );
    assert_eq!(
        expect_result(get_outcome(&server, "/untyped").await)["data"],
        json!({"b": 2})
    );
    assert_eq!(expect_result(get_outcome(&server, "/broken").await)["data"], "{\"a\":");
    assert_eq!(expect_result(get_outcome(&server, "/empty").await)["data"], Value::Null);
    let outcome = run_tool(&http_tool(), server.call("/json", json!({"response_type": "text"}))).await;
    assert_eq!(expect_result(outcome)["data"], "{\"a\": [1]}");
    let wrong = run_tool(&http_tool(), server.call("/text", json!({"response_type": "json"}))).await;
    assert_eq!(expect_error(&wrong).code, "HTTP_JSON");
}

#[tokio::test]
async fn statuses_become_kinds_of_error() {
    let server = TestHttpServer::start().await;
    for (path, code, kind, retryable) in [
        ("/busy", "HTTP_503", ErrorKind::ServerError, true),
        ("/slow_down", "HTTP_429", ErrorKind::RateLimit, true),
        ("/secret", "HTTP_401", ErrorKind::Auth, false),
        ("/gone", "HTTP_404", ErrorKind::NotFound, false),
        ("/wrong", "HTTP_422", ErrorKind::ClientError, false),
    ] {
        let outcome = get_outcome(&server, path).await;
        let failed = expect_error(&outcome);
        assert_eq!(
            (failed.code.as_str(), failed.kind, failed.retryable),
            (code, kind, retryable)
        );
    }
    let busy = get_outcome(&server, "/busy").await;
    assert_eq!(busy.facets().http.as_ref().unwrap()["retry_after"], 7.0);
    assert_eq!(expect_error(&busy).details["data"], json!({"why": 1}));
    let fine = run_tool(&http_tool(), server.call("/gone", json!({"ok_status": ["2xx", 404]}))).await;
    assert_eq!(expect_result(fine)["status_code"], 404);
    let strict = run_tool(&http_tool(), server.call("/json", json!({"ok_status": 201}))).await;
    assert_eq!(expect_error(&strict).code, "HTTP_200");
}

#[tokio::test]
async fn files_and_form_fields_are_sent_as_one_multipart_form() {
    let server = TestHttpServer::start().await;
    let fields = server.call(
        "/f",
        json!({"method": "POST", "files": {"f": {"content": "body"}}, "form": {"k": ["v", "w"], "none": null}}),
    );
    expect_result(run_tool(&http_tool(), fields).await);
    let request = server.last_request();
    for part in [
        "content-type: multipart/form-data; boundary=",
        "name=\"k\"\r\n\r\nv\r\n",
        "name=\"k\"\r\n\r\nw\r\n",
        "name=\"f\"; filename=\"f\"",
    ] {
        assert!(request.contains(part), "{part} in {request}");
    }
    assert!(!request.contains("name=\"none\""), "{request}");
    let text = server.call(
        "/f",
        json!({"method": "POST", "files": {"f": {"content": "body"}}, "data": "text"}),
    );
    let outcome = run_tool(&http_tool(), text).await;
    let error = expect_error(&outcome);
    assert!(error.message.contains("data"), "{}", error.message);
}

#[tokio::test]
async fn every_field_is_sent() {
    let server = TestHttpServer::start().await;
    let mut call = server.call(
        "/x?q=1",
        json!({
            "method": "post", "params": {"r": [1, 2], "n": null}, "headers": {"X-Mine": 5},
            "json": {"k": "v"}, "auth": {"type": "bearer", "token": "t0k"}
        }),
    );
    call.idempotency_key = "run-7".into();
    expect_result(run_tool(&http_tool(), call).await);
    let request = server.last_request();
    assert!(request.starts_with("POST /x?q=1&r=1&r=2 HTTP/1.1"), "{request}");
    for part in [
        "x-mine: 5",
        "authorization: Bearer t0k",
        "idempotency-key: run-7",
        "content-type: application/json",
        "{\"k\":\"v\"}",
    ] {
        assert!(request.contains(part), "{part} in {request}");
    }
    let form = server.call(
        "/f",
        json!({"method": "PUT", "form": {"a b": "c&d"}, "auth": {"type": "basic", "username": "u", "password": "p"}}),
    );
    expect_result(run_tool(&http_tool(), form).await);
    assert!(server.last_request().contains("a+b=c%26d") && server.last_request().contains("authorization: Basic dTpw"));
    let files = server.call(
        "/f",
        json!({"method": "POST", "files": {"f": {"content": "body", "filename": "a.txt"}}, "data": {"k": "v"}}),
    );
    expect_result(run_tool(&http_tool(), files).await);
    assert!(
        server.last_request().contains("name=\"f\"; filename=\"a.txt\"")
            && server.last_request().contains("name=\"k\"\r\n\r\nv\r\n")
    );
    let two = server.call("/f", json!({"method": "POST", "json": 1, "body": "x"}));
    assert_eq!(expect_error(&run_tool(&http_tool(), two).await).code, "TOOL_INPUT");
    let key = server.call(
        "/f",
        json!({"auth": {"type": "api_key", "in": "query", "name": "k", "value": "s"}}),
    );
    expect_result(run_tool(&http_tool(), key).await);
    assert!(server.last_request().starts_with("GET /f?k=s ") && !server.last_request().contains("idempotency-key"));
}

#[tokio::test]
async fn redirects_are_followed_up_to_a_limit() {
    let server = TestHttpServer::start().await;
    let followed = expect_result(get_outcome(&server, "/once").await);
    assert_eq!(followed["url"], format!("{}/json", server.base));
    let stays = run_tool(&http_tool(), server.call("/once", json!({"follow_redirects": false}))).await;
    assert_eq!(expect_result(stays)["status_code"], 302);
    assert_eq!(
        expect_error(&get_outcome(&server, "/loop").await).code,
        "HTTP_REDIRECTS"
    );
    assert_eq!(
        expect_error(&get_outcome(&server, "/metadata").await).code,
        "HTTP_ADDRESS_BLOCKED"
    );
}

#[tokio::test]
async fn credentials_stay_at_their_origin() {
    let server = TestHttpServer::start().await;
    let fields = json!({"auth": {"type": "api_key", "header": "X-Key", "value": "s3cret"}, "headers": {"Cookie": "c=1", "X-Open": "o"}});
    expect_result(run_tool(&http_tool(), server.call("/away", fields)).await);
    let first = server.requests.lock().unwrap()[0].clone();
    let last = server.last_request();
    assert!(first.contains("x-key: s3cret") && first.contains("cookie: c=1"));
    assert!(last.starts_with("GET /json") && last.contains("x-open: o"), "{last}");
    assert!(!last.contains("s3cret") && !last.contains("cookie"), "{last}");
}

#[tokio::test]
async fn a_misbehaving_server_is_limited() {
    let server = TestHttpServer::start().await;
    assert_eq!(
        expect_error(&get_outcome(&server, "/endless").await).code,
        "HTTP_BODY_TOO_LARGE"
    );
    let bomb = get_outcome(&server, "/bomb").await;
    assert_eq!(expect_error(&bomb).code, "HTTP_BODY_TOO_LARGE");
    assert_eq!(bomb.facets().http.as_ref().unwrap()["status"], 200);
    assert_eq!(
        expect_error(&get_outcome(&server, "/headers").await).code,
        "HTTP_HEADERS_TOO_LARGE"
    );
    assert_eq!(
        expect_error(&get_outcome(&server, "/nonsense").await).kind,
        ErrorKind::Connection
    );
    assert!(expect_error(&get_outcome(&server, "/cut").await).retryable);
    for path in ["/loris", "/silent"] {
        let mut slow = server.call(path, json!({}));
        slow.timeout.total = Some(Duration::from_millis(200));
        assert_eq!(expect_error(&run_tool(&http_tool(), slow).await).code, "TIMEOUT");
        let mut quiet = server.call(path, json!({}));
        quiet.timeout.connect = Some(Duration::from_millis(200));
        quiet.timeout.read = Some(Duration::from_millis(100));
        assert_eq!(
            expect_error(&run_tool(&http_tool(), quiet).await).details["phase"],
            "read"
        );
    }
}

#[tokio::test]
async fn an_unreachable_server_is_a_connection_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let outcome = run_tool(&http_tool(), build_call("http", json!({"url": url}), json!({}))).await;
    assert_eq!(expect_error(&outcome).code, "HTTP_CONNECT");
    assert!(expect_error(&outcome).retryable);
    let name = build_call("http", json!({"url": "http://no-such-host.invalid/"}), json!({}));
    assert_eq!(expect_error(&run_tool(&http_tool(), name).await).code, "HTTP_CONNECT");
}

#[tokio::test]
async fn private_addresses_are_blocked_if_configured() {
    let server = TestHttpServer::start().await;
    let closed = public_only_tool();
    let literal = run_tool(&closed, server.call("/json", json!({}))).await;
    assert_eq!(expect_error(&literal).code, "HTTP_ADDRESS_BLOCKED");
    let named = server.base.replace("127.0.0.1", "localhost");
    let named = run_tool(&closed, build_call("http", json!({"url": named}), json!({}))).await;
    assert_eq!(expect_error(&named).code, "HTTP_ADDRESS_BLOCKED");
    assert_eq!(server.request_count(), 0);
}

#[tokio::test]
async fn a_stop_ends_the_call() {
    let server = TestHttpServer::start().await;
    let stop = CancellationToken::new();
    stop.cancel();
    let outcome = http_tool()
        .call(server.call("/silent", json!({})), stop, &DiscardingLogSink)
        .await;
    assert_eq!(expect_error(&outcome).kind, ErrorKind::Cancelled);
}

#[tokio::test]
async fn the_tool_retries_only_if_configured() {
    let server = TestHttpServer::start().await;
    assert_eq!(expect_error(&get_outcome(&server, "/flaky").await).code, "HTTP_500");
    let mut patient = server.call("/flaky", json!({}));
    patient.spec = json!({"retry": {"attempts": 3, "delay": 0.01}})
        .as_object()
        .unwrap()
        .clone();
    assert_eq!(expect_result(run_tool(&http_tool(), patient).await)["data"], 1);
    assert_eq!(server.request_count(), 3);
}

#[tokio::test]
async fn an_invalid_request_is_reported() {
    for fields in [
        json!({}),
        json!({"url": "not a url"}),
        json!({"url": "http://x/", "headers": {"a b": "c"}}),
        json!({"url": "http://x/", "headers": {"a": "c\r\nd: e"}}),
        json!({"url": "http://x/", "params": 5}),
        json!({"url": "http://x/", "ok_status": "many"}),
    ] {
        let outcome = run_tool(&http_tool(), build_call("http", fields.clone(), json!({}))).await;
        assert_eq!(expect_error(&outcome).code, "TOOL_INPUT", "{fields}");
    }
    let file = run_tool(
        &http_tool(),
        build_call("http", json!({"url": "file:///etc/passwd"}), json!({})),
    )
    .await;
    assert_eq!(expect_error(&file).code, "HTTP_ADDRESS_BLOCKED");
}
