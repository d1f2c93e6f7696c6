//! A readable summary of a state that does not depend on how the state is stored.

use engine::ExecutionState;
use model::id::Name;
use model::step_pointer::StepPointer;
use serde_json::{Map, Value, json};

/// Summarizes a state: status, inputs, `ctx`, result, steps, and the work in progress.
pub(crate) fn summarize(state: &ExecutionState) -> Value {
    let steps: Map<String, Value> = state
        .steps
        .iter()
        .map(|(name, summary)| {
            let latest = summary.latest.as_ref().map(summarize_step);
            let step = json!({"runs": summary.runs, "latest": latest});
            (name.to_string(), step)
        })
        .collect();
    let result = state.end_boundary.as_ref().or(state.last_boundary.as_ref());
    let error = state.error.as_ref();
    let runs: Vec<String> = state.runs.iter().map(|(id, _)| id.to_string()).collect();
    let tokens: Vec<&str> = state.tokens.iter().map(|(_, token)| token.step.as_str()).collect();
    let signals: Vec<&str> = state.signals.keys().map(Name::as_str).collect();
    json!({
        "status": state.status().name(),
        "seq": state.seq,
        "generation": state.generation,
        "path": state.path,
        "hash": state.hash,
        "workload": state.workload.to_value(),
        "depth": state.depth,
        "parent": state.parent.as_ref().map(|parent| parent.execution_id),
        "ctx": *state.ctx,
        "ctx_seq": state.ctx_seq,
        "result": result.map(|pointer| json!({"step": pointer.step, "seq": pointer.seq})),
        "error": error.map(|error| json!({"code": error.code, "message": error.message})),
        "steps": steps,
        "runs": runs,
        "tokens": tokens,
        "signals": signals,
        "commands": state.commands.len(),
        "timers": state.timers.len(),
        "final_ran": state.final_ran,
    })
}

fn summarize_step(latest: &StepPointer) -> Value {
    let tasks: Vec<Value> = latest
        .tasks
        .iter()
        .map(|(label, seq, ok)| json!([label, seq, ok]))
        .collect();
    json!({
        "boundary": latest.boundary,
        "ok": latest.ok,
        "last": latest.last,
        "tasks": tasks,
        "loop": latest.loop_.as_ref().map(|at| json!([at.started, at.done])),
        "error": latest.error.as_ref().map(|error| json!(error.code)),
    })
}
