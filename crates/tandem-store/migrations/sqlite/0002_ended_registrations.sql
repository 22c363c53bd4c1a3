-- 1: the change also ends what the subscriber has registered; running servers drop their bindings.
ALTER TABLE subscriber_change ADD COLUMN ends_registrations INTEGER NOT NULL DEFAULT 0;
