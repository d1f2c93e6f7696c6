-- Tasks that wait for a signal. A pipeline waits for at most one.
CREATE TABLE pending_wait (
    execution_id INTEGER NOT NULL,
    signal TEXT NOT NULL,
    seq INTEGER NOT NULL,
    step_name TEXT NOT NULL,
    run INTEGER NOT NULL,
    task_label TEXT,
    iteration INTEGER,
    since INTEGER NOT NULL,
    deadline INTEGER,
    approval TEXT,
    PRIMARY KEY (execution_id, signal, seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX pending_wait_since ON pending_wait (since, execution_id, seq);

CREATE UNIQUE INDEX pending_wait_pipeline ON pending_wait (execution_id, step_name, run, coalesce(iteration, -1));

-- Signals that arrived before a task waited for them.
CREATE TABLE early_signal (
    execution_id INTEGER NOT NULL,
    signal TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (execution_id, signal, seq)
) STRICT, WITHOUT ROWID;
