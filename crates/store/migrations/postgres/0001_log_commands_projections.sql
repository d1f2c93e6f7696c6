-- The log, what workers and timers are owed, messages, the catalog, the projections, and who may and did ask.
-- Times are microseconds since 1970, by the database's clock.

CREATE FUNCTION noetl.micros() RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;

CREATE TABLE noetl.catalog (
    path text NOT NULL,
    version integer NOT NULL,
    hash text NOT NULL,
    text text NOT NULL,
    registered_at bigint NOT NULL,
    tenant text NOT NULL DEFAULT 'default',
    PRIMARY KEY (path, version)
);
CREATE INDEX catalog_hash ON noetl.catalog (hash);

CREATE TABLE noetl.execution (
    execution_id bigint PRIMARY KEY,
    version bigint NOT NULL,
    status text NOT NULL,
    cancelling boolean NOT NULL,
    generation integer NOT NULL,
    name text NOT NULL,
    path text NOT NULL,
    playbook_version integer NOT NULL,
    hash text NOT NULL,
    parent_id bigint,
    owner text,
    started_at bigint NOT NULL,
    finished_at bigint,
    current text,
    error text,
    tenant text NOT NULL DEFAULT 'default'
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX execution_status ON noetl.execution (status, execution_id);
CREATE INDEX execution_path ON noetl.execution (path, execution_id);
CREATE INDEX execution_parent ON noetl.execution (parent_id) WHERE parent_id IS NOT NULL;

CREATE TABLE noetl.log (
    execution_id bigint NOT NULL,
    seq_first bigint NOT NULL,
    seq_last bigint NOT NULL,
    types text NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (execution_id, seq_last)
);

CREATE FUNCTION noetl.refuse_change() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION '% rows never change', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation'; END $$;
CREATE TRIGGER log_is_never_changed BEFORE UPDATE ON noetl.log
    FOR EACH ROW EXECUTE FUNCTION noetl.refuse_change();

CREATE TABLE noetl.snapshot (
    execution_id bigint PRIMARY KEY,
    version integer NOT NULL,
    seq bigint NOT NULL,
    sha256 bytea NOT NULL,
    bytes bytea NOT NULL
);

CREATE TABLE noetl.event_key (
    execution_id bigint NOT NULL,
    key text NOT NULL,
    seq bigint,
    hash bytea,
    PRIMARY KEY (execution_id, key)
);

-- `kinds` names the tool kinds a worker must serve to take the command; empty means any worker.
CREATE TABLE noetl.command (
    execution_id bigint NOT NULL,
    seq bigint NOT NULL,
    unit text NOT NULL,
    pool text NOT NULL,
    worker text,
    lease_epoch integer NOT NULL,
    issued_at bigint NOT NULL,
    claimed_at bigint,
    start_by bigint,
    kinds text[] NOT NULL DEFAULT '{}',
    body text NOT NULL,
    PRIMARY KEY (execution_id, seq),
    CONSTRAINT command_unit UNIQUE (execution_id, unit)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX command_pending ON noetl.command (pool, issued_at, execution_id, seq) WHERE worker IS NULL;
CREATE INDEX command_held ON noetl.command (worker) WHERE worker IS NOT NULL;

CREATE TABLE noetl.session (
    worker text PRIMARY KEY,
    expires_at bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE noetl.timer (
    execution_id bigint NOT NULL,
    seq bigint NOT NULL,
    due bigint NOT NULL,
    PRIMARY KEY (execution_id, seq)
);
CREATE INDEX timer_due ON noetl.timer (due);

-- A consumed message keeps its key and loses its body, so that it cannot arrive twice.
CREATE TABLE noetl.message (
    ordinal bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    from_id bigint NOT NULL,
    seq bigint NOT NULL,
    n integer NOT NULL,
    to_id bigint NOT NULL,
    body text,
    CONSTRAINT message_key UNIQUE (from_id, seq, n)
);
CREATE INDEX message_open ON noetl.message (ordinal) WHERE body IS NOT NULL;

CREATE TABLE noetl.result_index (
    execution_id bigint NOT NULL,
    seq bigint NOT NULL,
    step_name text NOT NULL,
    run integer NOT NULL,
    step_run_id text GENERATED ALWAYS AS ('step:' || step_name || ':run:' || run::text) STORED,
    task_label text,
    visit integer NOT NULL,
    task_run_id text GENERATED ALWAYS AS ('task:' || task_label || ':run:' || visit::text) STORED,
    iteration bigint,
    page bigint,
    attempt integer NOT NULL,
    result_ref text NOT NULL,
    status text NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (execution_id, seq)
);

CREATE TABLE noetl.step_state (
    execution_id bigint NOT NULL,
    step_name text NOT NULL,
    run integer NOT NULL,
    status text NOT NULL,
    last_result_ref text,
    aggregate_result_ref text,
    seq bigint NOT NULL,
    PRIMARY KEY (execution_id, step_name)
) WITH (fillfactor = 80);

-- Which processes live: one row per number that ids are drawn with. A heartbeat of 0 is a process that left.
CREATE TABLE noetl.runtime (
    node integer PRIMARY KEY,
    owner text NOT NULL UNIQUE,
    address text,
    started_at bigint NOT NULL,
    heartbeat bigint NOT NULL
) WITH (fillfactor = 50);

CREATE FUNCTION noetl.is_alive(who text) RETURNS boolean LANGUAGE sql VOLATILE AS
$$ SELECT EXISTS (SELECT FROM noetl.runtime WHERE owner = who AND heartbeat > noetl.micros() - 3000000) $$;

-- What is to be published, by transaction: a reader takes only transactions below every open one, so none is skipped.
CREATE TABLE noetl.outbox (
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    execution_id bigint NOT NULL,
    seq_first bigint NOT NULL,
    seq_last bigint NOT NULL,
    PRIMARY KEY (xid, execution_id, seq_first)
);

CREATE TABLE noetl.token (
    id bigint PRIMARY KEY,
    name text NOT NULL,
    hash bytea NOT NULL UNIQUE,
    role text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    last_used_at bigint,
    revoked_at bigint
);

-- Each hash covers the hash before it and the body, so that nothing can be taken out or changed unseen.
CREATE TABLE noetl.audit (
    id bigint PRIMARY KEY,
    at bigint NOT NULL,
    body text NOT NULL,
    hash bytea NOT NULL
);
CREATE TRIGGER audit_is_never_changed BEFORE UPDATE OR DELETE ON noetl.audit
    FOR EACH ROW EXECUTE FUNCTION noetl.refuse_change();
CREATE TRIGGER audit_is_never_emptied BEFORE TRUNCATE ON noetl.audit
    FOR EACH STATEMENT EXECUTE FUNCTION noetl.refuse_change();

CREATE FUNCTION noetl.append_audit(entry text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    last_id bigint;
    last_hash bytea;
    now bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(5642813376);
    SELECT id, hash INTO last_id, last_hash FROM noetl.audit ORDER BY id DESC LIMIT 1;
    IF NOT FOUND THEN
        last_id := 0;
        last_hash := decode(repeat('00', 32), 'hex');
    END IF;
    now := noetl.micros();
    INSERT INTO noetl.audit (id, at, body, hash)
    VALUES (last_id + 1, now, entry,
        sha256(last_hash || convert_to((last_id + 1)::text || ' ' || now::text || ' ' || entry, 'UTF8')));
END
$$;

CREATE TABLE noetl.setting (
    key text PRIMARY KEY,
    value text NOT NULL
);
INSERT INTO noetl.setting (key, value)
VALUES ('cluster_secret', replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''));

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
        'task:' || task_label || ':run:' || visit AS task_run_id
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
    CASE WHEN event_type = 'playbook.execution.requested' THEN payload ->> 'trace_id' END AS trace_id,
    worker_id,
    payload,
    meta
FROM placed;

-- Writes the commits of a batch in one statement. Columns come as arrays, `*_m` naming the member they belong to;
-- what is rare comes as JSON. Verdicts: 0 written, 1 the version moved (detail: where it stands), 2 fenced,
-- 3 a key is taken (detail: which), 4 the same work is offered already (detail: which).
-- Every writer of an execution's keys and commands holds the lock on its row, so what is checked stays true.
-- Each part is a handful of look-ups by key, whatever the statistics of the moment say; the settings keep it so.
CREATE FUNCTION noetl.append_batch(
    ids bigint[], expected bigint[], versions bigint[], type_lists text[], bodies text[],
    current_set boolean[], current_step text[], patches json, created json,
    fence_m integer[], fence_seq bigint[], fence_epoch integer[], hands json,
    close_m integer[], close_seq bigint[], close_place integer[],
    issue_m integer[], issue_seq bigint[], issue_place integer[], issue_unit text[], issue_pool text[],
    issue_worker text[], issue_epoch integer[], issue_start_by bigint[], issue_kinds text[], issue_body text[],
    key_m integer[], key_text text[], key_seq bigint[], key_hash bytea[],
    step_m integer[], step_names text[], step_run integer[], step_status text[], step_last text[],
    step_aggregate text[], step_seq bigint[],
    timers json, messages json, consumed json, results json,
    snapshot_m integer[], snapshot_version integer[], snapshot_seq bigint[], snapshot_sha256 bytea[],
    snapshot_bytes bytea[], publish boolean,
    OUT verdict integer[], OUT detail bigint[]
) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    item record;
    member integer;
    missing integer[] := array_fill(0, ARRAY[cardinality(ids)]);
    now bigint := noetl.micros();
BEGIN
    detail := array_fill(0::bigint, ARRAY[cardinality(ids)]);
    verdict := ARRAY(SELECT (version <> 0)::integer FROM unnest(expected) WITH ORDINALITY AS m (version, place) ORDER BY place);
    FOR item IN
        SELECT m.place, m.expected, e.version
        FROM unnest(ids, append_batch.expected) WITH ORDINALITY AS m (id, expected, place)
        JOIN noetl.execution e ON e.execution_id = m.id
        ORDER BY e.execution_id FOR NO KEY UPDATE OF e
    LOOP
        verdict[item.place] := (item.version <> item.expected)::integer;
        detail[item.place] := item.version;
    END LOOP;

    IF cardinality(fence_m) > 0 THEN
        FOREACH member IN ARRAY fence_m LOOP
            missing[member] := missing[member] + 1;
        END LOOP;
        FOR item IN
            SELECT f.m, c.lease_epoch = f.epoch AND c.worker IS NOT NULL AS is_current
            FROM unnest(fence_m, fence_seq, fence_epoch) AS f (m, seq, epoch)
            JOIN noetl.command c ON c.execution_id = ids[f.m] AND c.seq = f.seq
            ORDER BY c.execution_id, c.seq FOR UPDATE OF c
        LOOP
            missing[item.m] := missing[item.m] - item.is_current::integer;
        END LOOP;
    END IF;
    IF hands IS NOT NULL THEN
        FOR item IN SELECT m FROM json_to_recordset(hands) AS h (m integer) LOOP
            missing[item.m] := missing[item.m] + 1;
        END LOOP;
        FOR item IN
            SELECT h.m, c.worker IS NULL AS is_on_offer
            FROM json_to_recordset(hands) AS h (m integer, seq bigint)
            JOIN noetl.command c ON c.execution_id = ids[h.m] AND c.seq = h.seq
            ORDER BY c.execution_id, c.seq FOR UPDATE OF c
        LOOP
            missing[item.m] := missing[item.m] - item.is_on_offer::integer;
        END LOOP;
    END IF;
    IF hands IS NOT NULL OR cardinality(fence_m) > 0 THEN
        FOR place IN 1 .. cardinality(ids) LOOP
            IF missing[place] > 0 THEN
                verdict[place] := 2;
            END IF;
        END LOOP;
    END IF;

    IF cardinality(key_m) > 0 THEN
        FOR item IN
            SELECT k.m, k.place FROM unnest(key_m, key_text) WITH ORDINALITY AS k (m, key, place)
            JOIN noetl.event_key e ON e.execution_id = ids[k.m] AND e.key = k.key
            ORDER BY k.place DESC
        LOOP
            IF verdict[item.m] IN (0, 3) THEN
                verdict[item.m] := 3;
                detail[item.m] := item.place;
            END IF;
        END LOOP;
    END IF;
    IF cardinality(issue_m) > 0 THEN
        FOR item IN
            SELECT i.m, i.nth
            FROM unnest(issue_m, issue_unit, issue_place) WITH ORDINALITY AS i (m, unit, place, nth)
            JOIN noetl.command c ON c.execution_id = ids[i.m] AND c.unit = i.unit
            WHERE NOT EXISTS (
                SELECT FROM unnest(close_m, close_seq, close_place) AS x (m, seq, place)
                WHERE x.m = i.m AND x.seq = c.seq AND x.place < i.place
            )
            ORDER BY i.nth DESC
        LOOP
            IF verdict[item.m] IN (0, 4) THEN
                verdict[item.m] := 4;
                detail[item.m] := item.nth;
            END IF;
        END LOOP;
    END IF;

    IF created IS NOT NULL THEN
        FOR item IN
            SELECT c.* FROM json_to_recordset(created) AS c (
                m integer, execution_id bigint, version bigint, status text, cancelling boolean, generation integer,
                name text, path text, playbook_version integer, hash text, parent_id bigint, owner text,
                started_at bigint, finished_at bigint, current text, error text
            ) ORDER BY c.execution_id
        LOOP
            IF verdict[item.m] = 0 THEN
                INSERT INTO noetl.execution (execution_id, version, status, cancelling, generation, name, path,
                    playbook_version, hash, parent_id, owner, started_at, finished_at, current, error)
                VALUES (item.execution_id, item.version, item.status, item.cancelling, item.generation, item.name,
                    item.path, item.playbook_version, item.hash, item.parent_id, item.owner, item.started_at,
                    item.finished_at, item.current, item.error)
                ON CONFLICT DO NOTHING;
                IF NOT FOUND THEN
                    verdict[item.m] := 1;
                    detail[item.m] := (SELECT e.version FROM noetl.execution e WHERE e.execution_id = item.execution_id);
                END IF;
            END IF;
        END LOOP;
    END IF;

    UPDATE noetl.execution e
    SET version = m.version, current = CASE WHEN m.is_set THEN m.current ELSE e.current END
    FROM unnest(ids, append_batch.expected, versions, current_set, current_step)
        WITH ORDINALITY AS m (id, expected, version, is_set, current, place)
    WHERE e.execution_id = m.id AND m.expected <> 0 AND verdict[m.place] = 0;
    IF patches IS NOT NULL THEN
        UPDATE noetl.execution e
        SET status = coalesce(p.status, e.status), cancelling = coalesce(p.cancelling, e.cancelling),
            generation = coalesce(p.generation, e.generation),
            playbook_version = coalesce(p.playbook_version, e.playbook_version), hash = coalesce(p.hash, e.hash),
            finished_at = CASE WHEN p.ends THEN p.finished_at ELSE e.finished_at END,
            error = CASE WHEN p.ends THEN p.error ELSE e.error END
        FROM json_to_recordset(patches) AS p (m integer, status text, cancelling boolean, generation integer,
            playbook_version integer, hash text, ends boolean, finished_at bigint, error text)
        WHERE e.execution_id = ids[p.m] AND verdict[p.m] = 0;
    END IF;

    INSERT INTO noetl.log (execution_id, seq_first, seq_last, types, body)
    SELECT m.id, m.expected + 1, m.version, m.types, m.body
    FROM unnest(ids, append_batch.expected, versions, type_lists, bodies)
        WITH ORDINALITY AS m (id, expected, version, types, body, place)
    WHERE m.body IS NOT NULL AND verdict[m.place] = 0;
    IF publish THEN
        INSERT INTO noetl.outbox (execution_id, seq_first, seq_last)
        SELECT m.id, m.expected + 1, m.version
        FROM unnest(ids, append_batch.expected, versions, bodies)
            WITH ORDINALITY AS m (id, expected, version, body, place)
        WHERE m.body IS NOT NULL AND verdict[m.place] = 0;
    END IF;
    IF cardinality(key_m) > 0 THEN
        INSERT INTO noetl.event_key (execution_id, key, seq, hash)
        SELECT ids[k.m], k.key, k.seq, k.hash
        FROM unnest(key_m, key_text, key_seq, key_hash) AS k (m, key, seq, hash)
        WHERE verdict[k.m] = 0;
    END IF;

    IF hands IS NOT NULL THEN
        UPDATE noetl.command c SET worker = h.worker, lease_epoch = h.lease_epoch, claimed_at = now
        FROM json_to_recordset(hands) AS h (m integer, seq bigint, worker text, lease_epoch integer)
        WHERE c.execution_id = ids[h.m] AND c.seq = h.seq AND verdict[h.m] = 0;
    END IF;
    IF cardinality(close_m) > 0 THEN
        DELETE FROM noetl.command c USING unnest(close_m, close_seq) AS x (m, seq)
        WHERE c.execution_id = ids[x.m] AND c.seq = x.seq AND verdict[x.m] = 0;
    END IF;
    IF cardinality(issue_m) > 0 THEN
        INSERT INTO noetl.command (execution_id, seq, unit, pool, worker, lease_epoch, issued_at, claimed_at,
            start_by, kinds, body)
        SELECT ids[i.m], i.seq, i.unit, i.pool, i.worker, i.epoch, now, CASE WHEN i.worker IS NOT NULL THEN now END,
            i.start_by, string_to_array(i.kinds, ','), i.body
        FROM unnest(issue_m, issue_seq, issue_unit, issue_pool, issue_worker, issue_epoch, issue_start_by, issue_kinds,
            issue_body) AS i (m, seq, unit, pool, worker, epoch, start_by, kinds, body)
        WHERE verdict[i.m] = 0;
    END IF;

    IF cardinality(step_m) > 0 THEN
        INSERT INTO noetl.step_state AS old (execution_id, step_name, run, status, last_result_ref,
            aggregate_result_ref, seq)
        SELECT ids[s.m], s.name, coalesce(s.run, 0), coalesce(s.status, 'in_progress'), s.last, s.aggregate, s.seq
        FROM unnest(step_m, step_names, step_run, step_status, step_last, step_aggregate, step_seq)
            AS s (m, name, run, status, last, aggregate, seq)
        WHERE verdict[s.m] = 0
        ON CONFLICT (execution_id, step_name) DO UPDATE
        SET run = CASE WHEN excluded.run = 0 THEN old.run ELSE excluded.run END,
            status = CASE WHEN excluded.run = 0 AND excluded.status = 'in_progress' THEN old.status
                ELSE excluded.status END,
            last_result_ref = coalesce(excluded.last_result_ref, old.last_result_ref),
            aggregate_result_ref = coalesce(excluded.aggregate_result_ref, old.aggregate_result_ref),
            seq = excluded.seq;
    END IF;
    IF results IS NOT NULL THEN
        INSERT INTO noetl.result_index (execution_id, seq, step_name, run, task_label, visit, iteration, page,
            attempt, result_ref, status, created_at)
        SELECT ids[r.m], r.seq, r.step, r.run, r.task, r.visit, r.iteration, r.page, r.attempt, r.result_ref,
            r.status, r.created_at
        FROM json_to_recordset(results) AS r (m integer, seq bigint, step text, run integer, task text,
            visit integer, iteration bigint, page bigint, attempt integer, result_ref text, status text,
            created_at bigint)
        WHERE verdict[r.m] = 0;
    END IF;

    IF timers IS NOT NULL THEN
        DELETE FROM noetl.timer t USING json_to_recordset(timers) AS x (m integer, seq bigint)
        WHERE t.execution_id = ids[x.m] AND t.seq = x.seq AND verdict[x.m] = 0;
        INSERT INTO noetl.timer (execution_id, seq, due)
        SELECT ids[x.m], x.seq, x.due FROM json_to_recordset(timers) AS x (m integer, seq bigint, due bigint)
        WHERE x.due IS NOT NULL AND verdict[x.m] = 0;
    END IF;
    IF messages IS NOT NULL THEN
        INSERT INTO noetl.message (from_id, seq, n, to_id, body)
        SELECT x.from_id, x.seq, x.n, x.to_id, x.body
        FROM json_to_recordset(messages) AS x (m integer, from_id bigint, seq bigint, n integer, to_id bigint,
            body text)
        WHERE verdict[x.m] = 0 ORDER BY x.from_id, x.seq, x.n
        ON CONFLICT DO NOTHING;
    END IF;
    IF consumed IS NOT NULL THEN
        UPDATE noetl.message o SET body = NULL
        FROM json_to_recordset(consumed) AS x (m integer, from_id bigint, seq bigint, n integer)
        WHERE o.from_id = x.from_id AND o.seq = x.seq AND o.n = x.n AND verdict[x.m] = 0;
    END IF;
    IF cardinality(snapshot_m) > 0 THEN
        INSERT INTO noetl.snapshot (execution_id, version, seq, sha256, bytes)
        SELECT ids[s.m], s.version, s.seq, s.sha256, s.bytes
        FROM unnest(snapshot_m, snapshot_version, snapshot_seq, snapshot_sha256, snapshot_bytes)
            AS s (m, version, seq, sha256, bytes)
        WHERE verdict[s.m] = 0
        ON CONFLICT (execution_id) DO UPDATE
        SET version = excluded.version, seq = excluded.seq, sha256 = excluded.sha256, bytes = excluded.bytes;
    END IF;
END
$$;

-- The commit of a plain step, written without looking first. False: its version has moved and nothing was written. A fence
-- or a key that does not hold ends the transaction; `append_batch` then says which.
CREATE FUNCTION noetl.append_plain(
    id bigint, expected bigint, new_version bigint, types text, body text, sets_current boolean, current_step text,
    done_seq bigint, done_epoch integer,
    issue_seq bigint, issue_unit text, issue_pool text, issue_worker text, issue_epoch integer, issue_start_by bigint,
    issue_kinds text, issue_body text, keys text[],
    step_names text[], step_run integer[], step_status text[], step_last text[], step_seq bigint[], publish boolean
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    now bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
BEGIN
    UPDATE noetl.execution e
    SET version = new_version, current = CASE WHEN sets_current THEN current_step ELSE e.current END
    WHERE e.execution_id = id AND e.version = expected;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM noetl.command c
    WHERE c.execution_id = id AND c.seq = done_seq AND c.lease_epoch = done_epoch AND c.worker IS NOT NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the command is not held under this claim';
    END IF;
    INSERT INTO noetl.log (execution_id, seq_first, seq_last, types, body)
    VALUES (id, expected + 1, new_version, append_plain.types, append_plain.body);
    IF publish THEN
        INSERT INTO noetl.outbox (execution_id, seq_first, seq_last) VALUES (id, expected + 1, new_version);
    END IF;
    FOR place IN 1 .. cardinality(keys) LOOP
        INSERT INTO noetl.event_key (execution_id, key) VALUES (id, keys[place]);
    END LOOP;
    INSERT INTO noetl.command (execution_id, seq, unit, pool, worker, lease_epoch, issued_at, claimed_at, start_by, kinds,
        body)
    VALUES (id, issue_seq, issue_unit, issue_pool, issue_worker, issue_epoch, now,
        CASE WHEN issue_worker IS NOT NULL THEN now END, issue_start_by, string_to_array(issue_kinds, ','), issue_body);
    FOR place IN 1 .. cardinality(step_names) LOOP
        INSERT INTO noetl.step_state AS old (execution_id, step_name, run, status, last_result_ref, seq)
        VALUES (id, step_names[place], coalesce(step_run[place], 0), coalesce(step_status[place], 'in_progress'),
            step_last[place], step_seq[place])
        ON CONFLICT (execution_id, step_name) DO UPDATE
        SET run = CASE WHEN excluded.run = 0 THEN old.run ELSE excluded.run END,
            status = CASE WHEN excluded.run = 0 AND excluded.status = 'in_progress' THEN old.status
                ELSE excluded.status END,
            last_result_ref = coalesce(excluded.last_result_ref, old.last_result_ref),
            seq = excluded.seq;
    END LOOP;
    RETURN true;
END
$$;
