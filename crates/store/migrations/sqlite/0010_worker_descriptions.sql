-- What a worker last sent about itself: its pool, slots, tool kinds and version.
ALTER TABLE session ADD COLUMN description TEXT;
