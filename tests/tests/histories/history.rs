//! A recorded history: the rows of the log and the snapshots as the store wrote them, and the states they fold to.

use engine::ExecutionState;
use model::event::unpack;
use model::id::{ExecutionId, Seq};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::state_summary::summarize;

/// One line of a recorded file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum HistoryLine {
    /// A row of `log`.
    Row(LogRow),
    /// A row of `snapshot`.
    Snapshot(SnapshotRow),
    /// The final state of an execution.
    State(FinalState),
}

/// A row of `log`: the events of one append, packed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogRow {
    pub(crate) execution: ExecutionId,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) body: String,
}

/// A row of `snapshot`; the bytes are in hexadecimal.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SnapshotRow {
    pub(crate) execution: ExecutionId,
    pub(crate) version: u32,
    pub(crate) seq: u64,
    pub(crate) bytes: String,
}

/// The summary of an execution's final state.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FinalState {
    pub(crate) execution: ExecutionId,
    pub(crate) summary: Value,
}

/// The lines of a recorded file.
#[derive(Debug)]
pub(crate) struct History {
    lines: Vec<HistoryLine>,
}

impl History {
    /// Creates a history from the rows of a store, and adds the states that they fold to.
    pub(crate) fn from_rows(rows: Vec<LogRow>, snapshots: Vec<SnapshotRow>) -> Self {
        let lines = rows.into_iter().map(HistoryLine::Row);
        let lines = lines.chain(snapshots.into_iter().map(HistoryLine::Snapshot));
        let mut history = Self { lines: lines.collect() };
        for execution in history.executions() {
            let state = history
                .fold(execution, u64::MAX)
                .expect("a log that the store just wrote can be folded");
            history.lines.push(HistoryLine::State(FinalState {
                execution,
                summary: summarize(&state),
            }));
        }
        history
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let lines = text
            .lines()
            .enumerate()
            .map(|(index, line)| serde_json::from_str(line).map_err(|error| format!("line {}: {error}", index + 1)));
        let lines = lines.collect::<Result<_, _>>()?;
        Ok(Self { lines })
    }

    pub(crate) fn to_text(&self) -> String {
        let lines = self.lines.iter().map(|line| {
            let line = serde_json::to_string(line).expect("a line is plain data");
            line + "\n"
        });
        lines.collect()
    }

    pub(crate) fn snapshots_mut(&mut self) -> impl Iterator<Item = &mut SnapshotRow> {
        self.lines.iter_mut().filter_map(|line| match line {
            HistoryLine::Snapshot(snapshot) => Some(snapshot),
            HistoryLine::Row(_) | HistoryLine::State(_) => None,
        })
    }

    /// Decodes and folds every log, and compares the states and the snapshots. Returns the first difference.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut described = Vec::new();
        for line in &self.lines {
            match line {
                HistoryLine::Row(_) => {}
                HistoryLine::Snapshot(snapshot) => self.check_snapshot(snapshot)?,
                HistoryLine::State(recorded) => {
                    let state = self.fold(recorded.execution, u64::MAX)?;
                    compare(&recorded.summary, &summarize(&state), "")
                        .map_err(|error| format!("execution {}: {error}", recorded.execution))?;
                    described.push(recorded.execution);
                }
            }
        }
        if described.is_empty() || described != self.executions() {
            return Err("not every execution has a recorded state".to_owned());
        }
        Ok(())
    }

    /// A snapshot of the current version holds the state of its log; stores ignore those of other versions.
    fn check_snapshot(&self, snapshot: &SnapshotRow) -> Result<(), String> {
        if snapshot.version != server::SNAPSHOT_VERSION {
            return Ok(());
        }
        let name = format!("snapshot of execution {}", snapshot.execution);
        let bytes = hex::decode(&snapshot.bytes).map_err(|error| format!("{name}: {error}"))?;
        let mut buffer = vec![0; bytes.len()];
        let state = ciborium::de::from_reader_with_buffer::<ExecutionState, _>(bytes.as_slice(), &mut buffer);
        let state =
            state.map_err(|error| format!("{name}: {error}; increase `SNAPSHOT_VERSION` if its form changed"))?;
        if state != self.fold(snapshot.execution, snapshot.seq)? {
            return Err(format!("{name}: it differs from the state of its log"));
        }
        Ok(())
    }

    fn executions(&self) -> Vec<ExecutionId> {
        let mut executions = Vec::new();
        for line in &self.lines {
            if let HistoryLine::Row(row) = line
                && !executions.contains(&row.execution)
            {
                executions.push(row.execution);
            }
        }
        executions
    }

    /// The state of an execution after the event `until`.
    fn fold(&self, execution: ExecutionId, until: u64) -> Result<ExecutionState, String> {
        let mut state = None;
        let mut next = 1;
        for line in &self.lines {
            let HistoryLine::Row(row) = line else {
                continue;
            };
            if row.execution != execution {
                continue;
            }
            if row.first != next {
                return Err(format!("expected event {next}, found {}", row.first));
            }
            let events = unpack(execution, Seq(row.first), &row.body)
                .map_err(|error| format!("events from {}: {error}", row.first))?;
            next += events.len() as u64;
            if row.last + 1 != next {
                return Err(format!("events from {}: their number differs", row.first));
            }
            for event in events.iter().filter(|event| event.seq.0 <= until) {
                state = engine::fold(state.take(), event);
            }
        }
        state.ok_or_else(|| format!("execution {execution} has no log"))
    }
}

/// Reports the first difference between two values by its path.
fn compare(recorded: &Value, folded: &Value, path: &str) -> Result<(), String> {
    if let (Value::Object(recorded), Value::Object(folded)) = (recorded, folded) {
        let keys = recorded.keys().chain(folded.keys());
        for key in keys {
            let (before, now) = (recorded.get(key), folded.get(key));
            compare(
                before.unwrap_or(&Value::Null),
                now.unwrap_or(&Value::Null),
                &format!("{path}.{key}"),
            )?;
        }
        return Ok(());
    }
    if recorded == folded {
        return Ok(());
    }
    Err(format!(
        "{}: recorded {recorded}, folded {folded}",
        path.trim_start_matches('.')
    ))
}
