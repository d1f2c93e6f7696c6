-- The commit of one execution that closes at most one command and issues at most one, written without looking first: a
-- step's, a run's first and its last. False: its version has moved and nothing was written. A fence or a key that does not
-- hold ends the transaction; `append_batch` then says which. A server that still asks for what this replaces is answered
-- by `append_batch` too.
DROP FUNCTION noetl.append_plain(
    bigint, bigint, bigint, text, text, boolean, text, bigint, integer, bigint, text, text, text, integer, bigint, text,
    text, text[], text[], integer[], text[], text[], bigint[], boolean
);

CREATE FUNCTION noetl.append_one(
    id bigint, expected bigint, new_version bigint, types text, body text, sets_current boolean, current_step text,
    patches json, created json, done_seq bigint, done_epoch integer,
    issue_seq bigint, issue_unit text, issue_pool text, issue_worker text, issue_epoch integer, issue_start_by bigint,
    issue_kinds text, issue_body text, keys text[],
    step_names text[], step_run integer[], step_status text[], step_last text[], step_seq bigint[], publish boolean
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    now bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
BEGIN
    IF created IS NOT NULL THEN
        INSERT INTO noetl.execution (execution_id, version, status, cancelling, generation, name, path,
            playbook_version, hash, parent_id, owner, started_at, finished_at, current, error)
        SELECT c.* FROM json_to_recordset(created) AS c (
            execution_id bigint, version bigint, status text, cancelling boolean, generation integer, name text,
            path text, playbook_version integer, hash text, parent_id bigint, owner text, started_at bigint,
            finished_at bigint, current text, error text
        )
        ON CONFLICT DO NOTHING;
    ELSIF patches IS NOT NULL THEN
        UPDATE noetl.execution e
        SET version = new_version, current = CASE WHEN sets_current THEN current_step ELSE e.current END,
            status = coalesce(p.status, e.status), cancelling = coalesce(p.cancelling, e.cancelling),
            generation = coalesce(p.generation, e.generation),
            playbook_version = coalesce(p.playbook_version, e.playbook_version), hash = coalesce(p.hash, e.hash),
            finished_at = CASE WHEN p.ends THEN p.finished_at ELSE e.finished_at END,
            error = CASE WHEN p.ends THEN p.error ELSE e.error END
        FROM json_to_recordset(patches) AS p (status text, cancelling boolean, generation integer,
            playbook_version integer, hash text, ends boolean, finished_at bigint, error text)
        WHERE e.execution_id = id AND e.version = expected;
    ELSE
        UPDATE noetl.execution e
        SET version = new_version, current = CASE WHEN sets_current THEN current_step ELSE e.current END
        WHERE e.execution_id = id AND e.version = expected;
    END IF;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF done_seq IS NOT NULL THEN
        DELETE FROM noetl.command c
        WHERE c.execution_id = id AND c.seq = done_seq AND c.lease_epoch = done_epoch AND c.worker IS NOT NULL;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the command is not held under this claim';
        END IF;
    END IF;
    INSERT INTO noetl.log (execution_id, seq_first, seq_last, types, body)
    VALUES (id, expected + 1, new_version, append_one.types, append_one.body);
    IF publish THEN
        INSERT INTO noetl.outbox (execution_id, seq_first, seq_last) VALUES (id, expected + 1, new_version);
    END IF;
    FOR place IN 1 .. cardinality(keys) LOOP
        INSERT INTO noetl.event_key (execution_id, key) VALUES (id, keys[place]);
    END LOOP;
    IF issue_seq IS NOT NULL THEN
        INSERT INTO noetl.command (execution_id, seq, unit, pool, worker, lease_epoch, issued_at, claimed_at, start_by,
            kinds, body)
        VALUES (id, issue_seq, issue_unit, issue_pool, issue_worker, issue_epoch, now,
            CASE WHEN issue_worker IS NOT NULL THEN now END, issue_start_by, string_to_array(issue_kinds, ','),
            issue_body);
    END IF;
    -- Whoever writes an execution's steps holds the lock on its row: what is not there now does not come meanwhile.
    FOR place IN 1 .. cardinality(step_names) LOOP
        IF step_run[place] IS DISTINCT FROM 1 THEN
            UPDATE noetl.step_state s
            SET run = coalesce(step_run[place], s.run), status = coalesce(step_status[place], s.status),
                last_result_ref = coalesce(step_last[place], s.last_result_ref), seq = step_seq[place]
            WHERE s.execution_id = id AND s.step_name = step_names[place];
            CONTINUE WHEN FOUND;
        END IF;
        INSERT INTO noetl.step_state (execution_id, step_name, run, status, last_result_ref, seq)
        VALUES (id, step_names[place], coalesce(step_run[place], 0), coalesce(step_status[place], 'in_progress'),
            step_last[place], step_seq[place]);
    END LOOP;
    RETURN true;
END
$$;
