-- Values are sealed before they come here: each under a data key of its own, which a master key wraps.
CREATE TABLE credential (
    name TEXT PRIMARY KEY,
    type TEXT NOT NULL,
    version INTEGER NOT NULL,
    data BLOB NOT NULL,
    data_key BLOB NOT NULL,
    key_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    last_used_at INTEGER
) STRICT;

CREATE TABLE keychain (
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    data BLOB NOT NULL,
    data_key BLOB NOT NULL,
    key_id TEXT NOT NULL,
    resolved_at INTEGER NOT NULL,
    expires_at INTEGER,
    PRIMARY KEY (scope, name)
) STRICT;
