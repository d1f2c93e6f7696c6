//! The witness: a service outside the system that sees every effect and remembers its key.
//!
//! `/ok` answers, `/flaky` fails the first two calls of each key, `/broken` fails always. Each call names its key in the
//! `Idempotency-Key` header, or in the query for tools that have no such header of their own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::http::{Http, Request};

/// How often `/flaky` fails for each key.
const FAILURES: u32 = 2;

/// The service and what it has seen.
pub struct Witness {
    http: Http,
    seen: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Witness {
    /// Starts it.
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

    /// Its address as the beginning of a URL.
    pub fn url(&self) -> String {
        self.http.url()
    }

    /// How often each key was used.
    pub fn seen(&self) -> BTreeMap<String, u32> {
        self.seen.lock().expect("no server thread panics").clone()
    }
}

fn key(request: &Request) -> String {
    let given = request.header("idempotency-key");
    let given = given.or_else(|| request.param("key"));
    given.unwrap_or("none").to_owned()
}
