-- How often servers have taken the name of a node from each other. A server writes only in the epoch in which it took the name, so one
-- that has lost it overwrites nothing of the other.
CREATE TABLE node_epoch (
    node  TEXT PRIMARY KEY,
    epoch BIGINT NOT NULL
);
