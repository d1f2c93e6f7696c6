-- The latest ends of each task in the iterations of a loop run: the last event that records a result of it, and the last
-- that records a failure.
CREATE TABLE noetl.loop_task (
    execution_id bigint NOT NULL,
    step_name text NOT NULL,
    task_label text NOT NULL,
    run integer NOT NULL,
    succeeded_seq bigint,
    failed_seq bigint,
    PRIMARY KEY (execution_id, step_name, task_label, run)
);

-- All tables of iterations are computed again from the log.
DELETE FROM noetl.loop_progress;
DELETE FROM noetl.iteration_index;
DELETE FROM noetl.iteration_span;

-- Writes what the members of a batch that were written (verdict 0) change in these tables. `changes` has four lists whose
-- entries name their member from 1 as `m`; a change to `loop_progress` without a step begins a new generation.
CREATE OR REPLACE FUNCTION noetl.write_iterations(verdicts integer[], ids bigint[], changes json) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
DECLARE
    item record;
BEGIN
    FOR item IN
        SELECT c.* FROM json_to_recordset(changes -> 'progress') AS c (m integer, step text, run integer, seq bigint,
            succeeded bigint, failed bigint, retries bigint)
    LOOP
        CONTINUE WHEN verdicts[item.m] <> 0;
        IF item.step IS NULL THEN
            UPDATE noetl.loop_progress p SET is_stale = true WHERE p.execution_id = ids[item.m];
        ELSE
            INSERT INTO noetl.loop_progress AS p (execution_id, step_name, run, succeeded, failed, retries,
                failed_since, is_stale)
            VALUES (ids[item.m], item.step, item.run, item.succeeded, item.failed, item.retries, 0, false)
            ON CONFLICT (execution_id, step_name, run) DO UPDATE
            SET succeeded = p.succeeded + item.succeeded,
                failed = CASE WHEN p.is_stale THEN 0 ELSE p.failed END + item.failed,
                retries = p.retries + item.retries,
                failed_since = CASE WHEN p.is_stale THEN item.seq ELSE p.failed_since END, is_stale = false;
        END IF;
    END LOOP;
    INSERT INTO noetl.iteration_index (execution_id, step_name, run, block, seq, iterations, failed)
    SELECT ids[b.m], b.step, b.run, b.block, b.seq, b.iterations, b.failed
    FROM json_to_recordset(changes -> 'blocks') AS b (m integer, step text, run integer, block bigint, seq bigint,
        iterations bigint, failed bigint)
    WHERE verdicts[b.m] = 0;
    INSERT INTO noetl.loop_task AS t (execution_id, step_name, task_label, run, succeeded_seq, failed_seq)
    SELECT ids[c.m], c.step, c.task, c.run, max(c.succeeded), max(c.failed)
    FROM json_to_recordset(changes -> 'tasks') AS c (m integer, step text, task text, run integer, succeeded bigint,
        failed bigint)
    WHERE verdicts[c.m] = 0
    GROUP BY ids[c.m], c.step, c.task, c.run
    ON CONFLICT (execution_id, step_name, task_label, run) DO UPDATE
    SET succeeded_seq = coalesce(excluded.succeeded_seq, t.succeeded_seq),
        failed_seq = coalesce(excluded.failed_seq, t.failed_seq);
    FOR item IN
        SELECT s.* FROM json_to_recordset(changes -> 'spans') AS s (m integer, seq_first bigint, seq_last bigint)
    LOOP
        CONTINUE WHEN verdicts[item.m] <> 0;
        UPDATE noetl.iteration_span s SET seq_last = item.seq_last
        WHERE s.execution_id = ids[item.m] AND s.seq_last = item.seq_first - 1;
        IF NOT FOUND THEN
            INSERT INTO noetl.iteration_span (execution_id, seq_first, seq_last)
            VALUES (ids[item.m], item.seq_first, item.seq_last);
        END IF;
    END LOOP;
END
$$;

-- Entries that have expired are removed with each new one.
CREATE INDEX keychain_expiry ON noetl.keychain (expires_at) WHERE expires_at IS NOT NULL;
