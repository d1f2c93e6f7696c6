-- What a run's row says of it, but for its place in the log and the process that drives it. Older rows have none until they change.
ALTER TABLE execution ADD COLUMN checksum INTEGER;
