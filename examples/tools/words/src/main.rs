//! An external tool in Rust: it reads one line of JSON for each call and writes one line of JSON with the outcome.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};

use serde_json::{Value, json};

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        // A line without a call is a cancellation of a call that has ended.
        if let Some(call) = request.get("call") {
            let response = json!({"id": request["id"], "outcome": outcome(call)});
            writeln!(out, "{response}")?;
            out.flush()?;
        }
    }
    Ok(())
}

fn outcome(call: &Value) -> Value {
    let text = call["fields"]["text"].as_str().unwrap_or_default();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for word in text.split_whitespace() {
        *counts.entry(word.to_lowercase()).or_default() += 1;
    }
    if counts.is_empty() {
        let error = json!({"kind": "client_error", "code": "WORDS_NONE", "message": "the text has no words"});
        return json!({"status": "error", "error": error});
    }
    json!({"status": "ok", "result": {"counts": counts}})
}
