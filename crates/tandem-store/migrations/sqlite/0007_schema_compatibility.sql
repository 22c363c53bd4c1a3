-- The oldest step that a program must know to work with these tables. Steps that only add leave it as it is. A step that removes or changes
-- what the program before it uses raises it, in its own file.
CREATE TABLE schema_compatibility (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    oldest_step INTEGER NOT NULL
);
INSERT INTO schema_compatibility (id, oldest_step) VALUES (1, 7);
