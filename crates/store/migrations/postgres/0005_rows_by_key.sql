-- Writes the commits of a batch in one statement. Columns come as arrays, `*_m` naming the member they belong to;
-- what is rare comes as JSON. Verdicts: 0 written, 1 the version moved (detail: where it stands), 2 fenced,
-- 3 a key is taken (detail: which), 4 the same work is offered already (detail: which).
-- Every writer of an execution's keys and commands holds the lock on its row, so what is checked stays true.
-- Rows are looked up one by one, by a whole unique key: in a subquery beside the arrays, or in a loop. The planner can then
-- neither walk a table and look each of its rows up in the arrays, nor prefer another index, whatever its statistics say.
CREATE OR REPLACE FUNCTION noetl.append_batch(
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
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
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
        CROSS JOIN LATERAL (
            SELECT x.version FROM noetl.execution x WHERE x.execution_id = m.id FOR NO KEY UPDATE
        ) e
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
            CROSS JOIN LATERAL (
                SELECT x.lease_epoch, x.worker FROM noetl.command x
                WHERE x.execution_id = ids[f.m] AND x.seq = f.seq FOR UPDATE
            ) c
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
            CROSS JOIN LATERAL (
                SELECT x.worker FROM noetl.command x WHERE x.execution_id = ids[h.m] AND x.seq = h.seq FOR UPDATE
            ) c
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
            CROSS JOIN LATERAL (
                SELECT FROM noetl.event_key x WHERE x.execution_id = ids[k.m] AND x.key = k.key OFFSET 0
            ) e
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
            CROSS JOIN LATERAL (
                SELECT x.seq FROM noetl.command x WHERE x.execution_id = ids[i.m] AND x.unit = i.unit OFFSET 0
            ) c
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

    FOR place IN 1 .. cardinality(ids) LOOP
        IF verdict[place] = 0 AND append_batch.expected[place] <> 0 THEN
            UPDATE noetl.execution e
            SET version = versions[place],
                current = CASE WHEN current_set[place] THEN current_step[place] ELSE e.current END
            WHERE e.execution_id = ids[place];
        END IF;
    END LOOP;
    IF patches IS NOT NULL THEN
        FOR item IN
            SELECT p.* FROM json_to_recordset(patches) AS p (m integer, status text, cancelling boolean,
                generation integer, playbook_version integer, hash text, ends boolean, finished_at bigint, error text)
        LOOP
            IF verdict[item.m] = 0 THEN
                UPDATE noetl.execution e
                SET status = coalesce(item.status, e.status), cancelling = coalesce(item.cancelling, e.cancelling),
                    generation = coalesce(item.generation, e.generation),
                    playbook_version = coalesce(item.playbook_version, e.playbook_version),
                    hash = coalesce(item.hash, e.hash),
                    finished_at = CASE WHEN item.ends THEN item.finished_at ELSE e.finished_at END,
                    error = CASE WHEN item.ends THEN item.error ELSE e.error END
                WHERE e.execution_id = ids[item.m];
            END IF;
        END LOOP;
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
        FOR item IN
            SELECT h.* FROM json_to_recordset(hands) AS h (m integer, seq bigint, worker text, lease_epoch integer)
        LOOP
            IF verdict[item.m] = 0 THEN
                UPDATE noetl.command c SET worker = item.worker, lease_epoch = item.lease_epoch, claimed_at = now
                WHERE c.execution_id = ids[item.m] AND c.seq = item.seq;
            END IF;
        END LOOP;
    END IF;
    IF cardinality(close_m) > 0 THEN
        FOR place IN 1 .. cardinality(close_m) LOOP
            IF verdict[close_m[place]] = 0 THEN
                DELETE FROM noetl.command c WHERE c.execution_id = ids[close_m[place]] AND c.seq = close_seq[place];
            END IF;
        END LOOP;
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
        FOR item IN SELECT x.* FROM json_to_recordset(timers) AS x (m integer, seq bigint) LOOP
            IF verdict[item.m] = 0 THEN
                DELETE FROM noetl.timer t WHERE t.execution_id = ids[item.m] AND t.seq = item.seq;
            END IF;
        END LOOP;
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
        FOR item IN
            SELECT x.* FROM json_to_recordset(consumed) AS x (m integer, from_id bigint, seq bigint, n integer)
        LOOP
            IF verdict[item.m] = 0 THEN
                UPDATE noetl.message o SET body = NULL
                WHERE o.from_id = item.from_id AND o.seq = item.seq AND o.n = item.n;
            END IF;
        END LOOP;
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

-- Claims the oldest commands of a pool for a worker. The index of unclaimed commands gives them in order, so only as many are
-- read as are wanted; without sorting as a choice, no plan reads them all first. Rows that another claim is taking are
-- passed over, so claims never wait for each other.
CREATE FUNCTION noetl.claim_commands(
    wanted_pool text, wanted_owner text, count_max bigint, claiming_worker text, worker_kinds text[]
) RETURNS TABLE (body text, lease_epoch integer) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET jit = off
AS $$
DECLARE
    item record;
BEGIN
    FOR item IN
        SELECT c.execution_id, c.seq FROM noetl.command c
        WHERE c.worker IS NULL AND c.pool = wanted_pool AND (worker_kinds IS NULL OR c.kinds <@ worker_kinds)
            AND EXISTS (
                SELECT FROM noetl.execution e
                WHERE e.execution_id = c.execution_id AND e.status = 'RUNNING' AND NOT e.cancelling
                    AND (wanted_owner IS NULL OR e.owner = wanted_owner)
                OFFSET 0
            )
        ORDER BY c.issued_at, c.execution_id, c.seq LIMIT count_max
        FOR UPDATE OF c SKIP LOCKED
    LOOP
        RETURN QUERY
            UPDATE noetl.command c
            SET worker = claiming_worker, lease_epoch = c.lease_epoch + 1, claimed_at = noetl.micros()
            WHERE c.execution_id = item.execution_id AND c.seq = item.seq
            RETURNING c.body, c.lease_epoch;
    END LOOP;
END
$$;
