-- Values are sealed before they come here: each under a data key of its own, which a master key wraps.
CREATE TABLE noetl.credential (
    name text PRIMARY KEY,
    type text NOT NULL,
    version integer NOT NULL,
    data bytea NOT NULL,
    data_key bytea NOT NULL,
    key_id text NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    last_used_at bigint
);

CREATE TABLE noetl.keychain (
    scope text NOT NULL,
    name text NOT NULL,
    data bytea NOT NULL,
    data_key bytea NOT NULL,
    key_id text NOT NULL,
    resolved_at bigint NOT NULL,
    expires_at bigint,
    PRIMARY KEY (scope, name)
);
