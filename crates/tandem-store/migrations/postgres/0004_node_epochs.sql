-- The latest epoch of each name of a node: a random number that a server draws when it takes the name. A server writes only in its own
-- epoch, so one that has lost the name overwrites nothing of the other.
CREATE TABLE node_epoch (
    node  TEXT PRIMARY KEY,
    epoch BIGINT NOT NULL
);
