-- Rows that only recognize repetitions are removed when no repetition can come any more.

-- The time at which a message was consumed; null while it is pending.
ALTER TABLE message ADD COLUMN consumed_at INTEGER;
UPDATE message SET consumed_at = unixepoch() * 1000000 WHERE body IS NULL;
CREATE INDEX message_consumed ON message (consumed_at) WHERE body IS NULL AND seq > 0;
CREATE INDEX message_consumed_from_outside ON message (consumed_at) WHERE body IS NULL AND seq = 0;

-- The retention of a setting counts from this time; null: the setting is permanent.
ALTER TABLE setting ADD COLUMN retained_from INTEGER;
UPDATE setting SET retained_from = unixepoch() * 1000000
WHERE key LIKE 'dedup:%' OR key LIKE 'refused:%' OR key LIKE 'batch-end:%';
CREATE INDEX setting_retained ON setting (retained_from) WHERE retained_from IS NOT NULL;
