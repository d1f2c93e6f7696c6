-- How far each run of a loop has come. Failures before `failed_since` belong to an earlier generation; `is_stale` says
-- that all counted failures do.
CREATE TABLE loop_progress (
    execution_id INTEGER NOT NULL,
    step_name TEXT NOT NULL,
    run INTEGER NOT NULL,
    succeeded INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    retries INTEGER NOT NULL,
    failed_since INTEGER NOT NULL,
    is_stale INTEGER NOT NULL,
    PRIMARY KEY (execution_id, step_name, run)
) STRICT, WITHOUT ROWID;

-- Where iterations are recorded: one row per append and block of 64 iterations. `iterations` and `failed` have one bit for
-- each iteration of the block; `seq` is the first event of the append that records one of them.
CREATE TABLE iteration_index (
    execution_id INTEGER NOT NULL,
    step_name TEXT NOT NULL,
    run INTEGER NOT NULL,
    block INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    iterations INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    PRIMARY KEY (execution_id, step_name, run, block, seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX iteration_failed ON iteration_index (execution_id, step_name, run, block, seq) WHERE failed <> 0;

-- Consecutive appends that record nothing but iterations; an outline of the run skips them.
CREATE TABLE iteration_span (
    execution_id INTEGER NOT NULL,
    seq_first INTEGER NOT NULL,
    seq_last INTEGER NOT NULL,
    PRIMARY KEY (execution_id, seq_last)
) STRICT, WITHOUT ROWID;
