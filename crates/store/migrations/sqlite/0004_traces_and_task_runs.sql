-- Every event names its trace, and a task run's id is unique within its execution.
ALTER TABLE result_index DROP COLUMN task_run_id;
ALTER TABLE result_index ADD COLUMN task_run_id TEXT GENERATED ALWAYS AS (
    'task:' || step_name || '.' || task_label || ':run:' || run || iif(iteration IS NULL, '', '.' || iteration) || '.' || visit
) VIRTUAL;

DROP VIEW event;
-- One row per event, with the columns of the event specification; the codec in `model` describes the short names.
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
