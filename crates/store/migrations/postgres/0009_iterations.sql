-- How far each run of a loop has come. Failures before `failed_since` belong to an earlier generation; `is_stale` says
-- that all counted failures do.
CREATE TABLE noetl.loop_progress (
    execution_id bigint NOT NULL,
    step_name text NOT NULL,
    run integer NOT NULL,
    succeeded bigint NOT NULL,
    failed bigint NOT NULL,
    retries bigint NOT NULL,
    failed_since bigint NOT NULL,
    is_stale boolean NOT NULL,
    PRIMARY KEY (execution_id, step_name, run)
);

-- Where iterations are recorded: one row per append and block of 64 iterations. `iterations` and `failed` have one bit for
-- each iteration of the block; `seq` is the first event of the append that records one of them.
CREATE TABLE noetl.iteration_index (
    execution_id bigint NOT NULL,
    step_name text NOT NULL,
    run integer NOT NULL,
    block bigint NOT NULL,
    seq bigint NOT NULL,
    iterations bigint NOT NULL,
    failed bigint NOT NULL,
    PRIMARY KEY (execution_id, step_name, run, block, seq)
);

CREATE INDEX iteration_failed ON noetl.iteration_index (execution_id, step_name, run, block, seq) WHERE failed <> 0;

-- Consecutive appends that record nothing but iterations; an outline of the run skips them.
CREATE TABLE noetl.iteration_span (
    execution_id bigint NOT NULL,
    seq_first bigint NOT NULL,
    seq_last bigint NOT NULL,
    PRIMARY KEY (execution_id, seq_last)
);

-- Writes what the members of a batch that were written (verdict 0) change in these tables. `changes` has three lists whose
-- entries name their member from 1 as `m`; a change to `loop_progress` without a step begins a new generation.
CREATE FUNCTION noetl.write_iterations(verdicts integer[], ids bigint[], changes json) RETURNS void LANGUAGE plpgsql
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
