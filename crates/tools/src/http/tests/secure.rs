//! Tests of TLS, HTTP/2, private certificate authorities and the limit per host, against real servers.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::Request;
use axum::routing::get;
use axum::serve::Listener;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::*;
use crate::network::CertificateAuthorities;

/// A TLS listener.
struct TlsListener {
    plain: TcpListener,
    tls: TlsAcceptor,
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = self.plain.accept().await.unwrap();
            // A client that does not trust the certificate closes the connection.
            if let Ok(stream) = self.tls.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.plain.local_addr()
    }
}

/// A server with a self-signed certificate that returns the protocol version of the request.
async fn start_tls_server(protocols: &[&str]) -> (String, String) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let generated = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(generated.signing_key.serialize_der()).unwrap();
    let mut config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![generated.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = plain.local_addr().unwrap().port();
    let secure = TlsListener {
        plain,
        tls: TlsAcceptor::from(Arc::new(config)),
    };
    let version = |request: Request| async move { format!("{:?}", request.version()) };
    let many = || async { [("x-long", "x".repeat(200_000))] };
    let app = Router::new().route("/", get(version)).route("/headers", get(many));
    tokio::spawn(async move { axum::serve(secure, app).await });
    (format!("https://localhost:{port}/"), generated.cert.pem())
}

fn trusting_tool(pem: &str) -> HttpTool {
    let network = NetworkConfig {
        authorities: CertificateAuthorities::parse_pem(pem.as_bytes()).unwrap(),
        ..NetworkConfig::default()
    };
    HttpTool::new(
        Arc::new(HttpClients::new(HttpLimits::default(), &network)),
        std::env::temp_dir(),
    )
}

async fn get_url(tool: &HttpTool, url: &str, mut fields: Value) -> Outcome {
    fields["url"] = json!(url);
    run_tool(tool, build_call("http", fields, json!({}))).await
}

#[tokio::test]
async fn the_newest_common_protocol_is_used() {
    let (url, pem) = start_tls_server(&["h2", "http/1.1"]).await;
    assert_eq!(
        expect_result(get_url(&trusting_tool(&pem), &url, json!({})).await)["data"],
        "HTTP/2.0"
    );
    let (url, pem) = start_tls_server(&["http/1.1"]).await;
    assert_eq!(
        expect_result(get_url(&trusting_tool(&pem), &url, json!({})).await)["data"],
        "HTTP/1.1"
    );
}

#[tokio::test]
async fn an_unknown_certificate_is_rejected_unless_verification_is_off() {
    let (url, _) = start_tls_server(&["h2"]).await;
    let outcome = get_url(&http_tool(), &url, json!({})).await;
    assert_eq!(expect_error(&outcome).code, "HTTP_CONNECT");
    assert!(
        expect_error(&outcome).message.to_lowercase().contains("certificate"),
        "{}",
        expect_error(&outcome).message
    );
    let outcome = get_url(&http_tool(), &url, json!({"verify_ssl": false})).await;
    assert_eq!(expect_result(outcome)["data"], "HTTP/2.0");
    // A connection without verification does not make the certificate trusted.
    assert_eq!(
        expect_error(&get_url(&http_tool(), &url, json!({})).await).code,
        "HTTP_CONNECT"
    );
}

#[tokio::test]
async fn a_private_authority_is_trusted_only_for_its_names() {
    let (url, pem) = start_tls_server(&["h2"]).await;
    let other = url.replace("localhost", "127.0.0.1");
    assert_eq!(
        expect_error(&get_url(&trusting_tool(&pem), &other, json!({})).await).code,
        "HTTP_CONNECT"
    );
    assert!(CertificateAuthorities::parse_pem(b"nothing").is_err());
}

#[tokio::test]
async fn headers_are_limited_in_http_2_too() {
    let (url, pem) = start_tls_server(&["h2"]).await;
    let outcome = get_url(&trusting_tool(&pem), &format!("{url}headers"), json!({})).await;
    let code = expect_error(&outcome).code.as_str();
    assert!(["HTTP_HEADERS_TOO_LARGE", "HTTP_PROTOCOL"].contains(&code), "{code}");
}

#[tokio::test]
async fn requests_beyond_the_limit_per_host_wait() {
    let (concurrent, concurrent_max) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let gate = Arc::new(Semaphore::new(0));
    let (count, mut counted) = watch::channel(0);
    let counts = (concurrent.clone(), concurrent_max.clone(), gate.clone());
    let handler = move || {
        let (concurrent, concurrent_max, gate) = counts.clone();
        let count = count.clone();
        async move {
            let now = concurrent.fetch_add(1, Ordering::SeqCst) + 1;
            concurrent_max.fetch_max(now, Ordering::SeqCst);
            count.send_modify(|count| *count += 1);
            gate.acquire().await.unwrap().forget();
            concurrent.fetch_sub(1, Ordering::SeqCst);
            "done"
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let app = Router::new().route("/", get(handler));
    tokio::spawn(async move { axum::serve(listener, app).await });
    let tool = Arc::new(limited_tool(HttpLimits {
        per_host_max: 3,
        ..HttpLimits::default()
    }));
    let calls: Vec<_> = (0..12)
        .map(|_| {
            let (tool, url) = (tool.clone(), url.clone());
            tokio::spawn(async move { get_url(&tool, &url, json!({})).await })
        })
        .collect();
    counted.wait_for(|count| *count == 3).await.unwrap();
    // A request that waits for a permit still times out.
    let mut hasty = build_call("http", json!({"url": url}), json!({}));
    hasty.timeout.total = Some(Duration::from_millis(50));
    assert_eq!(expect_error(&run_tool(&*tool, hasty).await).code, "TIMEOUT");
    // Another host has its own limit.
    let server = TestHttpServer::start().await;
    expect_result(run_tool(&*tool, server.call("/json", json!({}))).await);
    gate.add_permits(12);
    for call in calls {
        assert_eq!(expect_result(call.await.unwrap())["data"], "done");
    }
    assert_eq!(concurrent_max.load(Ordering::SeqCst), 3);
}
