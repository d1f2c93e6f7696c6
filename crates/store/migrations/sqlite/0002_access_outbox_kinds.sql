-- Who may ask and what was asked, settings, what waits to be published, and what a worker must serve to take a command.

ALTER TABLE command ADD COLUMN claimed_at INTEGER;
ALTER TABLE command ADD COLUMN kinds TEXT NOT NULL DEFAULT '[]';

CREATE TABLE outbox (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    execution_id INTEGER NOT NULL,
    seq_first INTEGER NOT NULL,
    seq_last INTEGER NOT NULL
) STRICT;

CREATE TABLE token (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE,
    role TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    last_used_at INTEGER,
    revoked_at INTEGER
) STRICT;

-- Each hash covers the hash before it and the row, so that nothing can be taken out or changed unseen.
CREATE TABLE audit (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    body TEXT NOT NULL,
    hash BLOB NOT NULL
) STRICT;

CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'audit rows never change');
END;

CREATE TRIGGER audit_is_never_deleted BEFORE DELETE ON audit
BEGIN
    SELECT RAISE(ABORT, 'audit rows never change');
END;

CREATE TABLE setting (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO setting (key, value) VALUES ('cluster_secret', lower(hex(randomblob(32))));
