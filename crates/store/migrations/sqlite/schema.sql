CREATE INDEX catalog_hash ON catalog (hash);

CREATE INDEX command_pending ON command (pool, issued_at, execution_id, seq) WHERE worker IS NULL;

CREATE INDEX execution_parent ON execution (parent_id) WHERE parent_id IS NOT NULL;

CREATE INDEX execution_path ON execution (path, execution_id);

CREATE INDEX execution_status ON execution (status, execution_id);

CREATE INDEX iteration_failed ON iteration_index (execution_id, step_name, run, block, seq) WHERE failed <> 0;

CREATE INDEX keychain_expiry ON keychain (expires_at) WHERE expires_at IS NOT NULL;

CREATE UNIQUE INDEX log_place ON log (execution_id, seq_last);

CREATE INDEX message_consumed ON message (consumed_at) WHERE body IS NULL AND seq > 0;

CREATE INDEX message_consumed_from_outside ON message (consumed_at) WHERE body IS NULL AND seq = 0;

CREATE INDEX message_open ON message (ordinal) WHERE body IS NOT NULL;

CREATE INDEX setting_retained ON setting (retained_from) WHERE retained_from IS NOT NULL;

CREATE INDEX timer_due ON timer (due);

CREATE TABLE audit (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    body TEXT NOT NULL,
    hash BLOB NOT NULL
) STRICT;

CREATE TABLE catalog (
    path TEXT NOT NULL,
    version INTEGER NOT NULL,
    hash TEXT NOT NULL,
    text TEXT NOT NULL,
    registered_at INTEGER NOT NULL,
    tenant TEXT NOT NULL DEFAULT 'default',
    PRIMARY KEY (path, version)
) STRICT;

CREATE TABLE command (
    execution_id INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    unit TEXT NOT NULL,
    pool TEXT NOT NULL,
    worker TEXT,
    lease_epoch INTEGER NOT NULL,
    issued_at INTEGER NOT NULL,
    start_by INTEGER,
    body TEXT NOT NULL, claimed_at INTEGER, kinds TEXT NOT NULL DEFAULT '[]',
    PRIMARY KEY (execution_id, unit)
) STRICT, WITHOUT ROWID;

CREATE TABLE credential (
    name TEXT PRIMARY KEY,
    type TEXT NOT NULL,
    version INTEGER NOT NULL,
    data BLOB NOT NULL,
    data_key BLOB NOT NULL,
    key_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    last_used_at INTEGER
) STRICT;

CREATE TABLE event_key (
    execution_id INTEGER NOT NULL,
    key TEXT NOT NULL,
    seq INTEGER,
    hash BLOB,
    PRIMARY KEY (execution_id, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE execution (
    execution_id INTEGER PRIMARY KEY,
    version INTEGER NOT NULL,
    status TEXT NOT NULL,
    cancelling INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    name TEXT NOT NULL,
    path TEXT NOT NULL,
    playbook_version INTEGER NOT NULL,
    hash TEXT NOT NULL,
    parent_id INTEGER,
    owner TEXT,
    started_at INTEGER NOT NULL,
    finished_at INTEGER,
    current TEXT,
    error TEXT,
    tenant TEXT NOT NULL DEFAULT 'default'
, checksum INTEGER) STRICT;

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

CREATE TABLE iteration_span (
    execution_id INTEGER NOT NULL,
    seq_first INTEGER NOT NULL,
    seq_last INTEGER NOT NULL,
    PRIMARY KEY (execution_id, seq_last)
) STRICT, WITHOUT ROWID;

CREATE TABLE keychain (
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    data BLOB NOT NULL,
    data_key BLOB NOT NULL,
    key_id TEXT NOT NULL,
    resolved_at INTEGER NOT NULL,
    expires_at INTEGER,
    PRIMARY KEY (scope, name)
) STRICT;

CREATE TABLE log (
    execution_id INTEGER NOT NULL,
    seq_first INTEGER NOT NULL,
    seq_last INTEGER NOT NULL,
    types TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;

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

CREATE TABLE loop_task (
    execution_id INTEGER NOT NULL,
    step_name TEXT NOT NULL,
    task_label TEXT NOT NULL,
    run INTEGER NOT NULL,
    succeeded_seq INTEGER,
    failed_seq INTEGER,
    PRIMARY KEY (execution_id, step_name, task_label, run)
) STRICT, WITHOUT ROWID;

CREATE TABLE message (
    ordinal INTEGER PRIMARY KEY AUTOINCREMENT,
    from_id INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    n INTEGER NOT NULL,
    to_id INTEGER NOT NULL,
    body TEXT, consumed_at INTEGER,
    UNIQUE (from_id, seq, n)
) STRICT;

CREATE TABLE outbox (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    execution_id INTEGER NOT NULL,
    seq_first INTEGER NOT NULL,
    seq_last INTEGER NOT NULL
) STRICT;

CREATE TABLE result_index (
    execution_id INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    step_name TEXT NOT NULL,
    run INTEGER NOT NULL,
    step_run_id TEXT GENERATED ALWAYS AS ('step:' || step_name || ':run:' || run) VIRTUAL,
    task_label TEXT,
    visit INTEGER NOT NULL,
    iteration INTEGER,
    page INTEGER,
    attempt INTEGER NOT NULL,
    result_ref TEXT NOT NULL,
    status TEXT NOT NULL,
    created_at INTEGER NOT NULL, task_run_id TEXT GENERATED ALWAYS AS (
    'task:' || step_name || '.' || task_label || ':run:' || run || iif(iteration IS NULL, '', '.' || iteration) || '.' || visit
) VIRTUAL,
    PRIMARY KEY (execution_id, seq)
) STRICT;

CREATE TABLE session (
    worker TEXT PRIMARY KEY,
    expires_at INTEGER NOT NULL
, holder TEXT) STRICT, WITHOUT ROWID;

CREATE TABLE setting (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
, retained_from INTEGER) STRICT, WITHOUT ROWID;

CREATE TABLE snapshot (
    execution_id INTEGER PRIMARY KEY,
    version INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    sha256 BLOB NOT NULL,
    bytes BLOB NOT NULL
) STRICT;

CREATE TABLE step_state (
    execution_id INTEGER NOT NULL,
    step_name TEXT NOT NULL,
    run INTEGER NOT NULL,
    status TEXT NOT NULL,
    last_result_ref TEXT,
    aggregate_result_ref TEXT,
    seq INTEGER NOT NULL,
    PRIMARY KEY (execution_id, step_name)
) STRICT, WITHOUT ROWID;

CREATE TABLE timer (
    execution_id INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    due INTEGER NOT NULL,
    PRIMARY KEY (execution_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE token (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE,
    role TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    last_used_at INTEGER,
    revoked_at INTEGER
) STRICT;

CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'audit rows never change');
END;

CREATE TRIGGER audit_is_never_deleted BEFORE DELETE ON audit
BEGIN
    SELECT RAISE(ABORT, 'audit rows never change');
END;

CREATE TRIGGER log_is_never_changed BEFORE UPDATE ON log
BEGIN
    SELECT RAISE(ABORT, 'log rows never change');
END;

CREATE VIEW event AS
WITH record AS (
    SELECT
        log.execution_id AS execution_id,
        log.seq_first + item.key AS seq,
        item.value ->> '$.k' AS event_type,
        (log.body ->> '$.b') + coalesce(item.value ->> '$.i', item.key) AS event_id,
        (log.body ->> '$.t') + coalesce(item.value ->> '$.t', 0) AS ts,
        (log.body ->> '$.r') + coalesce(item.value ->> '$.r', 0) AS recorded,
        nullif(coalesce(item.value ->> '$.c', log.seq_first + item.key - 1), 0) AS cause_seq,
        iif(item.value ->> '$.o' = 1, 'worker', 'server') AS source,
        nullif(coalesce(item.value ->> '$.w', iif(item.value ->> '$.o' = 1, log.body ->> '$.w', NULL)), '') AS worker_id,
        nullif(coalesce(item.value ->> '$.s', log.body ->> '$.s'), '') AS step,
        coalesce(item.value ->> '$.n', iif(item.value ->> '$.s' IS NULL, log.body ->> '$.n', 0), 0) AS run,
        log.body ->> '$.z' AS trace_given,
        item.value ->> '$.x' AS iteration,
        item.value ->> '$.l' AS task_label,
        coalesce(item.value ->> '$.v', item.value ->> '$.l' IS NOT NULL) AS visit,
        coalesce(item.value ->> '$.a', item.value ->> '$.l' IS NOT NULL) AS attempt,
        item.value ->> '$.g' AS page,
        item.value ->> '$.d' AS duration_ms,
        item.value -> '$.m' AS meta,
        coalesce(item.value -> '$.p', '{}') AS payload
    FROM log, json_each(log.body, '$.e') AS item
),
placed AS (
    SELECT
        *,
        iif(step IS NOT NULL AND run > 0, 'step:' || step || ':run:' || run, NULL) AS step_run_id,
        'task:' || coalesce(step, '') || '.' || task_label || ':run:' || run || iif(iteration IS NULL, '', '.' || iteration) || '.' || visit
            AS task_run_id
    FROM record
)
SELECT
    execution_id,
    seq,
    event_id,
    event_type,
    strftime('%Y-%m-%dT%H:%M:%S', ts / 1000000, 'unixepoch') || printf('.%06dZ', ts % 1000000) AS timestamp,
    strftime('%Y-%m-%dT%H:%M:%S', recorded / 1000000, 'unixepoch') || printf('.%06dZ', recorded % 1000000) AS recorded_at,
    cause_seq,
    source,
    substr(event_type, 1, instr(event_type, '.') - 1) AS entity_type,
    CASE
        WHEN event_type IN ('next.evaluated', 'policy.admit.evaluated') THEN 'step:' || coalesce(step, '')
        WHEN event_type = 'policy.task.evaluated' THEN 'task:' || coalesce(task_label, '')
        WHEN event_type IN ('result.stored', 'result.manifest.updated')
            THEN 'task:' || coalesce(task_label, '') || ':attempt:' || attempt
        WHEN event_type = 'signal.received' THEN payload ->> '$.name'
        WHEN event_type = 'timer.fired' THEN payload ->> '$.timer'
        WHEN event_type IN ('command.claimed', 'command.expired', 'command.failed') THEN payload ->> '$.command'
        WHEN event_type IN ('timer.set', 'command.issued') THEN seq
        ELSE coalesce(task_label, step, execution_id)
    END AS entity_id,
    CASE
        WHEN event_type IN ('policy.task.evaluated', 'result.stored', 'result.manifest.updated') THEN task_run_id
        WHEN event_type IN ('step.scheduled', 'step.started', 'step.done', 'step.failed') THEN 'workflow:' || execution_id
        WHEN step_run_id IS NOT NULL THEN step_run_id
        WHEN step IS NOT NULL THEN 'workflow:' || execution_id
    END AS parent_id,
    'workflow:' || execution_id AS workflow_run_id,
    step,
    step_run_id,
    task_label,
    task_run_id,
    iteration,
    step_run_id || ':iteration:' || iteration AS iteration_id,
    nullif(attempt, 0) AS attempt,
    page,
    CASE
        WHEN event_type IN ('playbook.finished', 'workflow.finished') THEN payload ->> '$.ended'
        WHEN event_type = 'policy.admit.evaluated' AND payload ->> '$.discarded' = 1 THEN 'skipped'
        WHEN event_type IN ('policy.admit.evaluated', 'next.evaluated') AND payload ->> '$.error' IS NOT NULL THEN 'error'
        WHEN event_type = 'playbook.paused' THEN 'paused'
        WHEN event_type LIKE '%.failed' OR event_type = 'command.expired' THEN 'error'
        WHEN event_type LIKE '%.started' OR event_type LIKE '%.scheduled' OR event_type IN (
            'playbook.execution.requested', 'command.issued', 'command.claimed', 'timer.set',
            'execution.cancel.requested', 'playbook.resumed', 'execution.retried', 'batch.accepted', 'batch.processing'
        ) THEN 'in_progress'
        ELSE 'success'
    END AS status,
    duration_ms,
    coalesce(trace_given, printf('%032x', execution_id)) AS trace_id,
    worker_id,
    payload,
    meta
FROM placed;
