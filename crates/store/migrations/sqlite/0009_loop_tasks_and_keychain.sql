-- The latest ends of each task in the iterations of a loop run: the last event that records a result of it, and the last
-- that records a failure.
CREATE TABLE loop_task (
    execution_id INTEGER NOT NULL,
    step_name TEXT NOT NULL,
    task_label TEXT NOT NULL,
    run INTEGER NOT NULL,
    succeeded_seq INTEGER,
    failed_seq INTEGER,
    PRIMARY KEY (execution_id, step_name, task_label, run)
) STRICT, WITHOUT ROWID;

-- All tables of iterations are computed again from the log.
DELETE FROM loop_progress;
DELETE FROM iteration_index;
DELETE FROM iteration_span;

-- Entries that have expired are removed with each new one.
CREATE INDEX keychain_expiry ON keychain (expires_at) WHERE expires_at IS NOT NULL;
