//! Tests that a streamed body gives the same result as one that is read into memory.

use model::playbook::{ResultControl, SelectEntry};
use model::result_ref::ResultRef;
use results::{BodyStore as _, DirBodyStore, ResultWriter};
use tempfile::TempDir;

use super::*;

/// A server that sends the same response to every request.
async fn start_server(status: &'static str, content_type: &'static str, body: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/", listener.local_addr().unwrap());
    let mut response = format!(
        "HTTP/1.1 {status}\r\n{content_type}connection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    response.extend(body);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            read_request(&mut stream).await;
            // The client closes the connection once it has read enough.
            let _ = stream.write_all(&response).await;
        }
    });
    base
}

struct StreamingFixture {
    dir: TempDir,
    body_store: Arc<DirBodyStore>,
}

impl StreamingFixture {
    fn open() -> Self {
        let dir = TempDir::new().unwrap();
        let body_store = Arc::new(DirBodyStore::open(dir.path()).unwrap());
        Self { dir, body_store }
    }

    fn call(&self, url: &str, fields: Value, select: &[&str]) -> Call {
        let mut call = build_call("http", fields, json!({}));
        call.fields.insert("url".to_owned(), url.into());
        call.inline_bytes_max = 0;
        let select = select.iter().map(|path| SelectEntry {
            path: (*path).to_owned(),
            name: (*path).into(),
        });
        call.result_writer = Some(ResultWriter {
            store: self.body_store.clone(),
            control: ResultControl {
                select: select.collect(),
                ..ResultControl::default()
            },
            uri: "noetl://execution/1".to_owned(),
            bytes_max: u64::MAX,
            missing_paths: results::MissingPaths::default(),
        });
        call
    }

    async fn value(&self, reference: &ResultRef) -> Value {
        let body = self.body_store.get(reference).await.unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    /// Number of drafts that were neither finished nor removed.
    fn count_drafts(&self) -> usize {
        let drafts = std::fs::read_dir(self.dir.path().join("bodies/new"));
        drafts.unwrap().count()
    }
}

fn outcome_reference(outcome: Outcome) -> ResultRef {
    match outcome {
        Outcome::Ok(success) => *success.reference.expect("the body exceeds the inline limit"),
        Outcome::Error(failure) => panic!("{:?}", failure.error),
    }
}

fn without_time(mut result: Value) -> Value {
    assert!(result["elapsed_ms"].is_number(), "{result}");
    result["elapsed_ms"] = Value::Null;
    result
}

/// Text larger than the memory limit, with multi-byte characters at the edges of every chunk.
fn long_text(text: &str) -> Vec<u8> {
    text.repeat(700_000 / text.len()).into_bytes()
}

#[tokio::test]
async fn a_streamed_body_gives_the_same_result_as_a_buffered_one() {
    const JSON: &str = "content-type: application/json\r\n";
    const TEXT: &str = "content-type: text/plain\r\n";
    const LATIN: &str = "content-type: text/plain; charset=iso-8859-1\r\n";
    let rows = serde_json::to_vec(&vec![json!({"id": 1, "t": "é\"\n"}); 30_000]).unwrap();
    let broken = rows[..rows.len() - 1].to_vec();
    let marked = [b"\xef\xbb\xbf".to_vec(), long_text("über€😀\"\\\u{1}")].concat();
    let half = [long_text("über€😀"), b"\xf0\x9f".to_vec()].concat();
    let wild: Vec<u8> = (0..=255_u8).cycle().take(500_001).collect();
    let cases = [
        (JSON, rows.clone(), json!({})),
        (JSON, broken.clone(), json!({})),
        ("", rows.clone(), json!({})),
        ("", broken, json!({})),
        ("", wild.clone(), json!({})),
        (TEXT, marked, json!({})),
        (TEXT, half, json!({})),
        (TEXT, wild.clone(), json!({})),
        (TEXT, rows.clone(), json!({"response_type": "json"})),
        (LATIN, wild.clone(), json!({})),
        (LATIN, long_text("über€"), json!({})),
        (JSON, rows, json!({"response_type": "binary"})),
        ("content-type: image/png\r\n", wild, json!({})),
    ];
    let store = StreamingFixture::open();
    for (content_type, body, fields) in cases {
        let description = format!("{content_type:?} {fields} {} bytes", body.len());
        let url = start_server("200 OK", content_type, body).await;
        let streamed = run_tool(&http_tool(), store.call(&url, fields.clone(), &[])).await;
        let mut buffered = store.call(&url, fields, &[]);
        buffered.result_writer = None;
        let buffered = run_tool(&http_tool(), buffered).await;
        let meta = |outcome: &Outcome| match outcome {
            Outcome::Ok(success) => success.meta.contains_key("warning"),
            Outcome::Error(failure) => panic!("{description}: {:?}", failure.error),
        };
        assert_eq!(meta(&streamed), meta(&buffered), "{description}");
        assert_eq!(streamed.facets(), buffered.facets(), "{description}");
        let streamed = without_time(store.value(&outcome_reference(streamed)).await);
        assert!(streamed == without_time(expect_result(buffered)), "{description}");
    }
    assert_eq!(store.count_drafts(), 0);
}

#[tokio::test]
async fn a_reference_shows_fields_of_its_body() {
    let rows: Vec<Value> = (0..30_000).map(|id| json!({"id": id})).collect();
    let body = json!({"rows": rows, "paging": {"more": true}});
    let url = start_server("200 OK", "", body.to_string().into_bytes()).await;
    let store = StreamingFixture::open();
    let plain = outcome_reference(run_tool(&http_tool(), store.call(&url, json!({}), &[])).await);
    assert_eq!(plain.extracted["status_code"], 200);
    assert_eq!(plain.extracted["url"], url);
    let preview = plain.preview.unwrap();
    assert!(preview.truncated && preview.sample.to_string().len() <= 2048);
    assert_eq!(preview.sample["data"]["rows"][3]["id"], 3);
    let paths = ["$.data.paging.more", "$.data.rows[29999].id"];
    let selected = outcome_reference(run_tool(&http_tool(), store.call(&url, json!({}), &paths)).await);
    let expected = json!({paths[0]: true, paths[1]: 29_999});
    assert_eq!(Value::Object(selected.extracted), expected);
}

#[tokio::test]
async fn a_body_with_a_recursive_path_is_read_into_memory() {
    let url = start_server("200 OK", "", vec![b' '; 100_000]).await;
    let store = StreamingFixture::open();
    let outcome = run_tool(&http_tool(), store.call(&url, json!({}), &["$..id"])).await;
    assert_eq!(expect_result(outcome)["data"].as_str().unwrap().len(), 100_000);
}

#[tokio::test]
async fn a_streamed_body_is_limited_and_its_draft_is_removed() {
    let store = StreamingFixture::open();
    let tool = limited_tool(HttpLimits {
        streamed_bytes_max: 1024 * 1024,
        ..HttpLimits::default()
    });
    let server = TestHttpServer::start().await;
    for path in ["/endless", "/bomb"] {
        let url = format!("{}{path}", server.base);
        let outcome = run_tool(&tool, store.call(&url, json!({}), &[])).await;
        assert_eq!(expect_error(&outcome).code, "HTTP_BODY_TOO_LARGE", "{path}");
    }
    let url = start_server("200 OK", "", vec![b'x'; 100_000]).await;
    let mut small = store.call(&url, json!({}), &[]);
    small.result_writer.as_mut().unwrap().bytes_max = 50_000;
    let outcome = run_tool(&tool, small).await;
    assert_eq!(expect_error(&outcome).code, "LIMIT_PAYLOAD");
    let json = store.call(&url, json!({"response_type": "json"}), &[]);
    assert_eq!(expect_error(&run_tool(&tool, json).await).code, "HTTP_JSON");
    assert_eq!(store.count_drafts(), 0);
}

#[tokio::test]
async fn only_the_beginning_of_a_failed_response_is_read() {
    let store = StreamingFixture::open();
    let body = serde_json::to_vec(&vec!["why"; 100_000]).unwrap();
    let url = start_server("500 Oops", "content-type: application/json\r\n", body).await;
    let outcome = run_tool(&http_tool(), store.call(&url, json!({"response_type": "json"}), &[])).await;
    let error = expect_error(&outcome);
    assert_eq!(error.code, "HTTP_500");
    assert!(error.details["data"].as_str().unwrap().starts_with("[\"why\""));
}

#[tokio::test]
async fn an_unwritable_directory_fails_the_call() {
    let store = StreamingFixture::open();
    let url = start_server("200 OK", "", vec![b'x'; 100_000]).await;
    // A directory cannot be created below a file.
    let file = store.dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let nowhere = file.join("nowhere");
    let tool = HttpTool::new(
        Arc::new(HttpClients::new(HttpLimits::default(), &NetworkConfig::default())),
        nowhere,
    );
    let outcome = run_tool(&tool, store.call(&url, json!({}), &[])).await;
    let error = expect_error(&outcome);
    assert_eq!((error.code.as_str(), error.retryable), ("STORAGE_UNAVAILABLE", true));
}
