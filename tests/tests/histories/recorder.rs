//! Records a history: the binary runs the scenario of a folder, and the rows of its SQLite store are copied.
//!
//! `commands.txt` has one command per line: `noetl ARGUMENTS` runs the binary and ignores its exit code, because a
//! scenario may fail on purpose; `wait EVENT [STEP]` waits until the latest run has recorded an event.

use std::fs;
use std::path::Path;

use model::id::ExecutionId;
use rusqlite::{Connection, Row};
use tests::cli_sandbox::CliSandbox;

use crate::LOG_FILE;
use crate::history::{History, LogRow, SnapshotRow};

const COMMANDS_FILE: &str = "commands.txt";

/// Runs the scenario of a folder and returns what the store wrote.
pub(crate) fn record(folder: &Path) -> History {
    let sandbox = CliSandbox::new();
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("cannot read {}: {error}", folder.display()));
    for entry in entries {
        let entry = entry.expect("the folder is readable");
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != LOG_FILE {
            let text = fs::read_to_string(entry.path()).expect("a scenario consists of text files");
            sandbox.write(&name, &text);
        }
    }
    for line in sandbox.read(COMMANDS_FILE).lines() {
        run_line(&sandbox, line);
    }
    assert!(
        sandbox.wait_for_no_processes(),
        "a process of the scenario is still running"
    );
    let path = sandbox.path(".noetl/noetl.db");
    let db = Connection::open(path).expect("the store of the scenario can be opened");
    History::from_rows(read_log(&db), read_snapshots(&db))
}

fn run_line(sandbox: &CliSandbox, line: &str) {
    let fields: Vec<&str> = line.split_whitespace().collect();
    match fields.as_slice() {
        ["noetl", arguments @ ..] => {
            let output = sandbox.run(arguments);
            assert_ne!(output.code, Some(2), "invalid usage: {output:?}");
        }
        ["wait", event, step @ ..] => {
            let mut follower = sandbox.start(&["events", "last", "-f", "-o", "ndjson"]);
            let event_line = follower.wait_for_event(event, step.first().copied());
            follower.kill();
            assert!(event_line.is_some(), "the run ended before `{line}`");
        }
        _ => panic!("`{COMMANDS_FILE}` has an unknown command: {line}"),
    }
}

fn read_log(db: &Connection) -> Vec<LogRow> {
    let sql = "SELECT execution_id, seq_first, seq_last, body FROM log ORDER BY execution_id, seq_first";
    let mut statement = db.prepare(sql).expect("the store has a log");
    let rows = statement.query_map((), |row| {
        Ok(LogRow {
            execution: ExecutionId(row.get(0)?),
            first: read_unsigned(row, 1)?,
            last: read_unsigned(row, 2)?,
            body: row.get(3)?,
        })
    });
    rows.and_then(Iterator::collect).expect("the log can be read")
}

fn read_snapshots(db: &Connection) -> Vec<SnapshotRow> {
    let sql = "SELECT execution_id, version, seq, bytes FROM snapshot ORDER BY execution_id";
    let mut statement = db.prepare(sql).expect("the store has snapshots");
    let rows = statement.query_map((), |row| {
        Ok(SnapshotRow {
            execution: ExecutionId(row.get(0)?),
            version: row.get(1)?,
            seq: read_unsigned(row, 2)?,
            bytes: hex::encode(row.get::<_, Vec<u8>>(3)?),
        })
    });
    rows.and_then(Iterator::collect).expect("the snapshots can be read")
}

fn read_unsigned(row: &Row<'_>, index: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(index).map(i64::cast_unsigned)
}
