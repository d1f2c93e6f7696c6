-- Rows that only recognize repetitions are removed when no repetition can come any more.

-- The time at which a message was consumed; it has no meaning while the message is pending. Messages that were consumed
-- earlier count from now on: a constant default leaves the rows of the table as they are.
DO $$ BEGIN EXECUTE format('ALTER TABLE noetl.message ADD COLUMN consumed_at bigint DEFAULT %s', noetl.micros()); END $$;
ALTER TABLE noetl.message ALTER COLUMN consumed_at DROP DEFAULT;
CREATE INDEX message_consumed ON noetl.message (consumed_at) WHERE body IS NULL AND seq > 0;
CREATE INDEX message_consumed_from_outside ON noetl.message (consumed_at) WHERE body IS NULL AND seq = 0;

CREATE FUNCTION noetl.record_consumption() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN NEW.consumed_at := noetl.micros(); RETURN NEW; END $$;
CREATE TRIGGER message_is_consumed BEFORE UPDATE ON noetl.message
    FOR EACH ROW WHEN (OLD.body IS NOT NULL AND NEW.body IS NULL) EXECUTE FUNCTION noetl.record_consumption();

-- The retention of a setting counts from this time; null: the setting is permanent.
ALTER TABLE noetl.setting ADD COLUMN retained_from bigint;
UPDATE noetl.setting SET retained_from = noetl.micros()
WHERE starts_with(key, 'dedup:') OR starts_with(key, 'refused:') OR starts_with(key, 'batch-end:');
CREATE INDEX setting_retained ON noetl.setting (retained_from) WHERE retained_from IS NOT NULL;

-- Removes rows whose retention has passed, at most `count_max` of each kind. Indexes give them in the order of their age,
-- and every other row is looked up by its key, so that a call reads no more rows than it removes, whatever the statistics
-- say. Only the sessions are read as a whole: an index on their ends would cost every heartbeat more than it saves here.
CREATE FUNCTION noetl.remove_old_rows(
    sessions_before bigint, requests_before bigint, messages_before bigint, count_max bigint,
    OUT removed bigint, OUT postponed bigint
) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    item record;
    run_end record;
BEGIN
    removed := 0;
    postponed := 0;
    FOR item IN
        SELECT s.worker FROM noetl.session s
        WHERE s.expires_at < sessions_before
            AND NOT EXISTS (SELECT FROM noetl.command c WHERE c.worker = s.worker OFFSET 0)
        LIMIT count_max FOR UPDATE OF s SKIP LOCKED
    LOOP
        DELETE FROM noetl.session s WHERE s.worker = item.worker;
        removed := removed + 1;
    END LOOP;

    FOR item IN
        SELECT s.key, s.value FROM noetl.setting s
        WHERE s.retained_from < requests_before
        ORDER BY s.retained_from LIMIT count_max FOR UPDATE SKIP LOCKED
    LOOP
        IF starts_with(item.key, 'dedup:') THEN
            SELECT e.finished_at INTO run_end FROM noetl.execution e WHERE e.execution_id = item.value::bigint;
            IF FOUND AND coalesce(run_end.finished_at, requests_before) >= requests_before THEN
                UPDATE noetl.setting s SET retained_from = coalesce(run_end.finished_at, noetl.micros())
                WHERE s.key = item.key;
                postponed := postponed + 1;
                CONTINUE;
            END IF;
        ELSIF starts_with(item.key, 'batch-end:') THEN
            DELETE FROM noetl.setting s WHERE s.key = 'batch:' || substr(item.key, 11);
        END IF;
        DELETE FROM noetl.setting s WHERE s.key = item.key;
        removed := removed + 1;
    END LOOP;

    FOR item IN
        SELECT m.from_id, m.seq, m.n FROM noetl.message m
        WHERE m.body IS NULL AND m.seq = 0 AND m.consumed_at < requests_before
        ORDER BY m.consumed_at LIMIT count_max FOR UPDATE SKIP LOCKED
    LOOP
        DELETE FROM noetl.message m WHERE m.from_id = item.from_id AND m.seq = item.seq AND m.n = item.n;
        removed := removed + 1;
    END LOOP;
    FOR item IN
        SELECT m.from_id, m.seq, m.n FROM noetl.message m
        WHERE m.body IS NULL AND m.seq > 0 AND m.consumed_at < messages_before
        ORDER BY m.consumed_at LIMIT count_max FOR UPDATE SKIP LOCKED
    LOOP
        DELETE FROM noetl.message m WHERE m.from_id = item.from_id AND m.seq = item.seq AND m.n = item.n;
        removed := removed + 1;
    END LOOP;
END
$$;

-- Pending messages are read in the order of their arrival. Their own index must be the only one that gives this order, so
-- that no plan reads the consumed ones.
ALTER TABLE noetl.message DROP CONSTRAINT message_pkey;

-- While a table is tiny, every index that a condition can use costs the same, and the planner takes the newest. The key by
-- which rows are looked up must be that one: the others would be read as a whole once the table has grown.
ALTER TABLE noetl.message DROP CONSTRAINT message_key, ADD CONSTRAINT message_key PRIMARY KEY (from_id, seq, n);
ALTER TABLE noetl.execution DROP CONSTRAINT execution_pkey, ADD CONSTRAINT execution_pkey PRIMARY KEY (execution_id);
ALTER TABLE noetl.command DROP CONSTRAINT command_pkey, ADD CONSTRAINT command_pkey PRIMARY KEY (execution_id, seq);

-- A playbook is found by its hash through the index that also gives the order.
DROP INDEX noetl.catalog_hash;
CREATE INDEX catalog_hash ON noetl.catalog (hash, registered_at);

-- How far the time of a process is ahead of the database's clock. Heartbeats are times of the process that wrote them.
ALTER TABLE noetl.runtime ADD COLUMN clock_offset bigint NOT NULL DEFAULT 0;
