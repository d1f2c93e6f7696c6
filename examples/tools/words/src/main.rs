//! A tool kind in Rust: one JSON line in for each call, one JSON line out for its outcome.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};

use serde_json::{Value, json};

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let asked: Value = serde_json::from_str(&line?)?;
        // A call that is cancelled here has been answered long before.
        if let Some(call) = asked.get("call") {
            let answer = json!({"id": asked["id"], "outcome": outcome(call)});
            writeln!(out, "{answer}")?;
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
