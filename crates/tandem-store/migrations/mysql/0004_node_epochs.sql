-- How often servers have taken the name of a node from each other. A server writes only in the epoch in which it took the name, so one
-- that has lost it overwrites nothing of the other.
CREATE TABLE IF NOT EXISTS node_epoch (
    node  VARBINARY(63) NOT NULL,
    epoch BIGINT NOT NULL,
    PRIMARY KEY (node)
) ENGINE = InnoDB;
