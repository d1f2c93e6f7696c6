-- The labels of executions, from the first event of each log.
CREATE TABLE execution_label (
    execution_id INTEGER NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (execution_id, key)
) STRICT, WITHOUT ROWID;

-- Lists by label, newest first.
CREATE INDEX execution_label_value ON execution_label (key, value, execution_id);

-- Lists by status and playbook, newest first: neither index alone bounds a search for rare failures of a frequent playbook.
CREATE INDEX execution_status_path ON execution (status, path, execution_id);

-- Lists by error code, newest first. Only failed executions have an error.
CREATE INDEX execution_error_code ON execution (substr(error, 1, instr(error || ': ', ': ') - 1), execution_id)
    WHERE error IS NOT NULL;
