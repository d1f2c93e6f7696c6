-- The labels of executions, from the first event of each log.
CREATE TABLE noetl.execution_label (
    execution_id bigint NOT NULL,
    key text NOT NULL,
    value text NOT NULL
);

-- Lists by label, newest first.
CREATE INDEX execution_label_value ON noetl.execution_label (key, value, execution_id);

-- While a table is tiny, the newest index that fits is used, so the primary key is created last.
ALTER TABLE noetl.execution_label ADD CONSTRAINT execution_label_pkey PRIMARY KEY (execution_id, key);

-- Lists by status and playbook, newest first: neither index alone bounds a search for rare failures of a frequent playbook.
CREATE INDEX execution_status_path ON noetl.execution (status, path, execution_id);

-- Lists by error code, newest first. Only failed executions have an error. The length of an index entry is limited.
CREATE INDEX execution_error_code ON noetl.execution (left(split_part(error, ': ', 1), 200), execution_id)
    WHERE error IS NOT NULL;

-- Children of an execution, newest first.
DROP INDEX noetl.execution_parent;
CREATE INDEX execution_parent ON noetl.execution (parent_id, execution_id) WHERE parent_id IS NOT NULL;

-- The primary key must stay the newest index of the table: runs are looked up by their ID.
ALTER TABLE noetl.execution DROP CONSTRAINT execution_pkey, ADD CONSTRAINT execution_pkey PRIMARY KEY (execution_id);

-- Writes what the members of a batch that were written (verdict 0) change in the tables of iterations and labels. `changes`
-- has the lists of `noetl.write_iterations`, and `labels`, whose entries name their member from 1 as `m`.
CREATE FUNCTION noetl.write_iterations_and_labels(verdicts integer[], ids bigint[], changes json) RETURNS void
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
BEGIN
    PERFORM noetl.write_iterations(verdicts, ids, changes);
    INSERT INTO noetl.execution_label (execution_id, key, value)
    SELECT ids[l.m], l.key, l.value FROM json_to_recordset(changes -> 'labels') AS l (m integer, key text, value text)
    WHERE verdicts[l.m] = 0;
END
$$;
