//! The witness: an HTTP service outside the system that records the key of every effect.
//!
//! `/ok` succeeds, `/flaky` fails the first two calls of each key, `/broken` always fails. Each call sends its key in
//! the `Idempotency-Key` header, or in the query for tools that do not send this header.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::http::{Http, Request};

/// Number of failures of `/flaky` for each key.
const FAILURES: u32 = 2;

/// The service and the keys it has seen.
pub struct Witness {
    http: Http,
    seen: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Witness {
    /// Starts the service.
    pub fn start() -> Self {
        let seen = Arc::new(Mutex::new(BTreeMap::new()));
        let counts = seen.clone();
        let http = Http::start(move |request, _| {
            let key = key(request);
            let count = {
                let mut counts = counts.lock().expect("no server thread panics");
                let count: &mut u32 = counts.entry(key.clone()).or_default();
                *count += 1;
                *count
            };
            let fails = match request.path.as_str() {
                "/broken" => true,
                "/flaky" => count <= FAILURES,
                _ => false,
            };
            let status = if fails { 503 } else { 200 };
            (status, json!({ "key": key, "n": request.param("n") }))
        });
        Self { http, seen }
    }

    /// Base URL of the service.
    pub fn url(&self) -> String {
        self.http.url()
    }

    /// Number of calls with each key.
    pub fn seen(&self) -> BTreeMap<String, u32> {
        self.seen.lock().expect("no server thread panics").clone()
    }
}

fn key(request: &Request) -> String {
    let given = request.header("idempotency-key");
    let given = given.or_else(|| request.param("key"));
    given.unwrap_or("none").to_owned()
}
