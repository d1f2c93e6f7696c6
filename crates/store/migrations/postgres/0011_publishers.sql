-- Whether the process publishes events: only such a process may be the one that does so for all.
ALTER TABLE noetl.runtime ADD COLUMN publishes boolean NOT NULL DEFAULT false;
