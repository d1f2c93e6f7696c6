-- Every event names its trace, and a task run's id is unique within its execution.
ALTER TABLE noetl.result_index DROP COLUMN task_run_id;
ALTER TABLE noetl.result_index ADD COLUMN task_run_id text GENERATED ALWAYS AS (
    'task:' || step_name || '.' || task_label || ':run:' || run::text || coalesce('.' || iteration::text, '') || '.' || visit::text
) STORED;

DROP VIEW noetl.event;
-- One row per event, with the columns of the event specification; the codec in `model` describes the short names.
CREATE VIEW noetl.event AS
WITH item AS (
    SELECT
        log.execution_id,
        log.seq_first,
        log.body::json AS body,
        item.value AS value,
        item.ordinal - 1 AS place
    FROM noetl.log, json_array_elements(log.body::json -> 'e') WITH ORDINALITY AS item (value, ordinal)
),
record AS (
    SELECT
        execution_id,
        seq_first + place AS seq,
        value ->> 'k' AS event_type,
        (body ->> 'b')::bigint + coalesce((value ->> 'i')::bigint, place) AS event_id,
        (body ->> 't')::bigint + coalesce((value ->> 't')::bigint, 0) AS ts,
        (body ->> 'r')::bigint + coalesce((value ->> 'r')::bigint, 0) AS recorded,
        nullif(coalesce((value ->> 'c')::bigint, seq_first + place - 1), 0) AS cause_seq,
        CASE WHEN value ->> 'o' = '1' THEN 'worker' ELSE 'server' END AS source,
        nullif(coalesce(value ->> 'w', CASE WHEN value ->> 'o' = '1' THEN body ->> 'w' END), '') AS worker_id,
        nullif(coalesce(value ->> 's', body ->> 's'), '') AS step,
        coalesce((value ->> 'n')::integer,
            CASE WHEN value ->> 's' IS NULL THEN (body ->> 'n')::integer ELSE 0 END, 0) AS run,
        body ->> 'z' AS trace_given,
        (value ->> 'x')::bigint AS iteration,
        value ->> 'l' AS task_label,
        coalesce((value ->> 'v')::integer, (value ->> 'l' IS NOT NULL)::integer) AS visit,
        coalesce((value ->> 'a')::integer, (value ->> 'l' IS NOT NULL)::integer) AS attempt,
        (value ->> 'g')::bigint AS page,
        (value ->> 'd')::bigint AS duration_ms,
        value -> 'm' AS meta,
        coalesce(value -> 'p', '{}'::json) AS payload
    FROM item
),
placed AS (
    SELECT
        *,
        CASE WHEN step IS NOT NULL AND run > 0 THEN 'step:' || step || ':run:' || run END AS step_run_id,
        'task:' || coalesce(step, '') || '.' || task_label || ':run:' || run || coalesce('.' || iteration, '') || '.' || visit
            AS task_run_id
    FROM record
)
SELECT
    execution_id,
    seq,
    event_id,
    event_type,
    to_char(timestamp 'epoch' + (ts / 1000000) * interval '1 second' + (ts % 1000000) * interval '1 microsecond',
        'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS timestamp,
    to_char(timestamp 'epoch' + (recorded / 1000000) * interval '1 second'
        + (recorded % 1000000) * interval '1 microsecond', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS recorded_at,
    cause_seq,
    source,
    split_part(event_type, '.', 1) AS entity_type,
    CASE
        WHEN event_type IN ('next.evaluated', 'policy.admit.evaluated') THEN 'step:' || coalesce(step, '')
        WHEN event_type = 'policy.task.evaluated' THEN 'task:' || coalesce(task_label, '')
        WHEN event_type IN ('result.stored', 'result.manifest.updated')
            THEN 'task:' || coalesce(task_label, '') || ':attempt:' || attempt
        WHEN event_type = 'signal.received' THEN payload ->> 'name'
        WHEN event_type = 'timer.fired' THEN payload ->> 'timer'
        WHEN event_type IN ('command.claimed', 'command.expired', 'command.failed') THEN payload ->> 'command'
        WHEN event_type IN ('timer.set', 'command.issued') THEN seq::text
        ELSE coalesce(task_label, step, execution_id::text)
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
        WHEN event_type IN ('playbook.finished', 'workflow.finished') THEN payload ->> 'ended'
        WHEN event_type = 'policy.admit.evaluated' AND payload ->> 'discarded' = 'true' THEN 'skipped'
        WHEN event_type IN ('policy.admit.evaluated', 'next.evaluated') AND payload ->> 'error' IS NOT NULL THEN 'error'
        WHEN event_type = 'playbook.paused' THEN 'paused'
        WHEN event_type LIKE '%.failed' OR event_type = 'command.expired' THEN 'error'
        WHEN event_type LIKE '%.started' OR event_type LIKE '%.scheduled' OR event_type IN (
            'playbook.execution.requested', 'command.issued', 'command.claimed', 'timer.set',
            'execution.cancel.requested', 'playbook.resumed', 'execution.retried', 'batch.accepted', 'batch.processing'
        ) THEN 'in_progress'
        ELSE 'success'
    END AS status,
    duration_ms,
    coalesce(trace_given, lpad(to_hex(execution_id), 32, '0')) AS trace_id,
    worker_id,
    payload,
    meta
FROM placed;
