//! Streams and pages: no event is missed or repeated, and a reader can resume after an interruption.

use futures_util::StreamExt;
use reqwest::Response;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::fixture::{ApiFixture, HELLO, http_client};

/// Reads server-sent events until `enough` returns true or the stream ends.
async fn read_events(response: Response, enough: impl Fn(&[(u64, Value)]) -> bool) -> Vec<(u64, Value)> {
    let mut chunks = response.bytes_stream();
    let mut text = String::new();
    let mut events = Vec::new();
    while !enough(&events) {
        let Some(chunk) = chunks.next().await else {
            break;
        };
        text.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
        while let Some(end) = text.find("\n\n") {
            let block: String = text.drain(..end + 2).collect();
            let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            if let (Some(id), Some(data)) = (field("id:"), field("data:")) {
                events.push((id.parse().unwrap(), serde_json::from_str(data).unwrap()));
            }
        }
    }
    events
}

async fn open_stream(fixture: &ApiFixture, path: &str, last: Option<u64>) -> Response {
    let mut request = http_client().get(format!("{}{path}", fixture.url));
    if let Some(last) = last {
        request = request.header("last-event-id", last.to_string());
    }
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    response
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_resumes_after_the_last_event_of_the_reader() {
    let fixture = ApiFixture::open().await;
    let execution = fixture.execute(HELLO).await;
    let path = format!("/api/executions/{execution}/stream");
    let first = read_events(open_stream(&fixture, &path, None).await, |events| events.len() >= 3).await;
    let last = first[2].0;
    let cancel = json!({"reason": "enough"});
    fixture
        .post(&format!("/api/executions/{execution}/cancel"), &cancel)
        .await;
    let remaining = read_events(open_stream(&fixture, &path, Some(last)).await, |_| false).await;
    let mut seqs: Vec<u64> = first[..3].iter().chain(&remaining).map(|(id, _)| *id).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    let ends = remaining
        .iter()
        .filter(|(_, event)| event["event_type"] == "playbook.finished");
    assert_eq!(ends.count(), 1, "the stream ends with the run");
    seqs.dedup();
    let page = fixture
        .get(&format!("/api/executions/{execution}/events?limit=1000"))
        .await
        .body;
    assert_eq!(page["events"].as_array().unwrap().len(), seqs.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_its_run_whenever_that_ends() {
    let fixture = ApiFixture::open().await;
    for _ in 0..40 {
        let execution = fixture.execute(HELLO).await;
        let path = format!("/api/executions/{execution}/stream");
        let cancel = json!({"reason": "enough"});
        let cancelling = format!("/api/executions/{execution}/cancel");
        let following = async { read_events(open_stream(&fixture, &path, None).await, |_| false).await };
        let (events, _) = tokio::join!(following, fixture.post(&cancelling, &cancel));
        let is_end = |(_, event): &&(u64, Value)| event["event_type"] == "playbook.finished";
        assert_eq!(events.iter().filter(is_end).count(), 1);
        let page = format!("/api/executions/{execution}/events?limit=1000");
        let page = fixture.get(&page).await.body;
        assert_eq!(page["events"].as_array().unwrap().len(), events.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_runs_are_followed_in_one_stream() {
    let fixture = ApiFixture::open().await;
    let first = fixture.execute(HELLO).await;
    let response = open_stream(&fixture, "/api/executions/stream", None).await;
    let second = fixture.execute(HELLO).await;
    let both_runs = read_events(response, |events| {
        let ids: Vec<&str> = events
            .iter()
            .filter_map(|(_, run)| run["execution_id"].as_str())
            .collect();
        ids.contains(&first.as_str()) && ids.contains(&second.as_str())
    });
    both_runs.await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_runs_and_events_meet_without_gap_or_overlap() {
    let fixture = ApiFixture::open().await;
    let mut started = Vec::new();
    for _ in 0..5 {
        started.push(fixture.execute(HELLO).await);
    }
    let mut listed = Vec::new();
    let mut path = "/api/executions?limit=2".to_owned();
    loop {
        let page = fixture.get(&path).await.body;
        let runs = page["executions"].as_array().unwrap();
        listed.extend(runs.iter().map(|run| run["execution_id"].as_str().unwrap().to_owned()));
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/api/executions?limit=2&cursor={cursor}"),
            None => break,
        }
    }
    started.reverse();
    assert_eq!(listed, started);
    let mut seqs = Vec::new();
    let mut after = 0;
    loop {
        let path = format!("/api/executions/{}/events?limit=3&after_seq={after}", started[0]);
        let page = fixture.get(&path).await.body;
        let events = page["events"].as_array().unwrap();
        seqs.extend(events.iter().map(|event| event["seq"].as_u64().unwrap()));
        match page["next_after_seq"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    let state = |seq: usize| format!("/api/replay/state?execution_id={}&as_of_seq={seq}", started[0]);
    let full = fixture.get(&state(seqs.len())).await.body;
    let part = fixture.get(&state(2)).await.body;
    assert_eq!((&full["seq"], &part["seq"]), (&json!(seqs.len()), &json!(2)));
    assert_ne!(full["checksum"], part["checksum"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filtered_stream_says_when_a_run_no_longer_matches() {
    let fixture = ApiFixture::open().await;
    let execution = fixture.execute(HELLO).await;
    let stream = open_stream(&fixture, "/api/executions/stream?status=RUNNING", None).await;
    let listed = Notify::new();
    let reading = read_events(stream, |events| {
        if !events.is_empty() {
            listed.notify_one();
        }
        events.iter().any(|(_, event)| event["status"].is_null())
    });
    let cancelling = async {
        listed.notified().await;
        fixture
            .post(&format!("/api/executions/{execution}/cancel"), &json!({}))
            .await
    };
    let (events, _) = tokio::join!(reading, cancelling);
    let (_, first) = &events[0];
    assert_eq!(
        (&first["execution_id"], &first["status"]),
        (&json!(execution), &json!("RUNNING"))
    );
    let (_, last) = &events[events.len() - 1];
    assert_eq!(last, &json!({"execution_id": execution}));
}
