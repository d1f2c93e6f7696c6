//! The effect recorder: an HTTP service outside the system that counts the calls with each key.
//!
//! `/ok` succeeds, `/flaky` fails the first two calls of each key, `/broken` always fails. Each call sends its key in
//! the `Idempotency-Key` header, or in the query for tools that do not send this header.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::http::{FakeHttpServer, ReceivedRequest};

/// Number of failures of `/flaky` for each key.
const FAILURES_BEFORE_SUCCESS: u32 = 2;

/// The service and the keys of its calls.
pub struct EffectRecorder {
    http: FakeHttpServer,
    effects: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl EffectRecorder {
    /// Starts the service.
    pub fn start() -> Self {
        let effects = Arc::new(Mutex::new(BTreeMap::new()));
        let counts = effects.clone();
        let http = FakeHttpServer::start(move |request, _| {
            let key = effect_key(request);
            let count = {
                let mut counts = counts.lock().expect("no server thread panics");
                let count: &mut u32 = counts.entry(key.clone()).or_default();
                *count += 1;
                *count
            };
            let fails = match request.path.as_str() {
                "/broken" => true,
                "/flaky" => count <= FAILURES_BEFORE_SUCCESS,
                _ => false,
            };
            let status = if fails { 503 } else { 200 };
            (status, json!({ "key": key, "n": request.param("n") }))
        });
        Self { http, effects }
    }

    /// Base URL of the service.
    pub fn url(&self) -> String {
        self.http.url()
    }

    /// Number of calls with each key.
    pub fn effects(&self) -> BTreeMap<String, u32> {
        self.effects.lock().expect("no server thread panics").clone()
    }
}

fn effect_key(request: &ReceivedRequest) -> String {
    let given = request.header("idempotency-key");
    let given = given.or_else(|| request.param("key"));
    given.unwrap_or("none").to_owned()
}
