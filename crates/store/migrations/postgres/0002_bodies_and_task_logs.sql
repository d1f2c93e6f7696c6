-- Bodies too large for the log, in pieces, and the lines that tasks print.

-- Names the pieces of one body; a piece never changes its name.
CREATE SEQUENCE noetl.body_draft_id;

-- A body is there once it has its row here.
CREATE TABLE noetl.body (
    sha256 bytea PRIMARY KEY,
    draft bigint NOT NULL UNIQUE,
    bytes bigint NOT NULL,
    chunks integer NOT NULL,
    chunk_bytes integer NOT NULL,
    stored_at bigint NOT NULL
);

-- Every piece but the last has `chunk_bytes`.
CREATE TABLE noetl.body_chunk (
    draft bigint NOT NULL,
    n integer NOT NULL,
    sha256 bytea NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (draft, n)
);

-- Bodies on their way in, and pieces that nothing needs any more.
CREATE TABLE noetl.body_draft (
    draft bigint PRIMARY KEY,
    begun_at bigint NOT NULL
);

-- How much an execution has printed; its lock puts lines that several servers take in into one order.
CREATE TABLE noetl.task_log (
    execution_id bigint PRIMARY KEY,
    last bigint NOT NULL,
    bytes bigint NOT NULL
);

CREATE TABLE noetl.task_log_line (
    execution_id bigint NOT NULL,
    n bigint NOT NULL,
    step text NOT NULL,
    task text NOT NULL,
    line text NOT NULL,
    PRIMARY KEY (execution_id, n)
);
