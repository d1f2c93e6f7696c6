-- Who a worker's session belongs to. A session of an older server has no holder until its worker calls again.
ALTER TABLE session ADD COLUMN holder TEXT;
