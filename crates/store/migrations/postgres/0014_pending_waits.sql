-- Tasks that wait for a signal. A pipeline waits for at most one.
CREATE TABLE noetl.pending_wait (
    execution_id bigint NOT NULL,
    signal text NOT NULL COLLATE "C",
    seq bigint NOT NULL,
    step_name text NOT NULL,
    run integer NOT NULL,
    task_label text,
    iteration bigint,
    since bigint NOT NULL,
    deadline bigint,
    approval text
);

CREATE INDEX pending_wait_since ON noetl.pending_wait (since, execution_id, seq);

CREATE UNIQUE INDEX pending_wait_pipeline
    ON noetl.pending_wait (execution_id, step_name, run, coalesce(iteration, -1));

-- While a table is tiny, the newest index that fits is used, so the primary key is created last.
ALTER TABLE noetl.pending_wait ADD CONSTRAINT pending_wait_pkey PRIMARY KEY (execution_id, signal, seq);

-- Signals that arrived before a task waited for them.
CREATE TABLE noetl.early_signal (
    execution_id bigint NOT NULL,
    signal text NOT NULL COLLATE "C",
    seq bigint NOT NULL,
    PRIMARY KEY (execution_id, signal, seq)
);

-- Writes what the members of a batch that were written (verdict 0) change in these tables. Each change names its member
-- from 1 as `m`; the order of the changes counts.
CREATE FUNCTION noetl.write_waits(verdicts integer[], ids bigint[], changes json) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
DECLARE
    item record;
    id bigint;
BEGIN
    FOR item IN
        SELECT c.* FROM json_to_recordset(changes) AS c (m integer, change text, signal text, seq bigint, step text,
            run integer, task text, iteration bigint, since bigint, deadline bigint, approval text)
    LOOP
        CONTINUE WHEN verdicts[item.m] <> 0;
        id := ids[item.m];
        CASE item.change
            WHEN 'begin' THEN
                DELETE FROM noetl.early_signal s
                WHERE s.execution_id = id AND s.signal = item.signal AND s.seq = (
                    SELECT min(o.seq) FROM noetl.early_signal o WHERE o.execution_id = id AND o.signal = item.signal);
                IF NOT FOUND THEN
                    DELETE FROM noetl.pending_wait w
                    WHERE w.execution_id = id AND w.step_name = item.step AND w.run = item.run
                        AND coalesce(w.iteration, -1) = coalesce(item.iteration, -1);
                    INSERT INTO noetl.pending_wait (execution_id, signal, seq, step_name, run, task_label, iteration,
                        since, deadline, approval)
                    VALUES (id, item.signal, item.seq, item.step, item.run, item.task, item.iteration, item.since,
                        item.deadline, item.approval);
                END IF;
            WHEN 'signal' THEN
                DELETE FROM noetl.pending_wait w
                WHERE w.execution_id = id AND w.signal = item.signal AND w.seq = (
                    SELECT min(o.seq) FROM noetl.pending_wait o WHERE o.execution_id = id AND o.signal = item.signal);
                IF NOT FOUND THEN
                    INSERT INTO noetl.early_signal (execution_id, signal, seq) VALUES (id, item.signal, item.seq);
                END IF;
            WHEN 'end_pipeline' THEN
                DELETE FROM noetl.pending_wait w
                WHERE w.execution_id = id AND w.step_name = item.step AND w.run = item.run
                    AND coalesce(w.iteration, -1) = coalesce(item.iteration, -1);
            WHEN 'end_run' THEN
                DELETE FROM noetl.pending_wait w
                WHERE w.execution_id = id AND w.step_name = item.step AND w.run = item.run;
            WHEN 'end_all' THEN
                DELETE FROM noetl.pending_wait w WHERE w.execution_id = id;
        END CASE;
    END LOOP;
END
$$;
