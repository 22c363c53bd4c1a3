-- The latest epoch of each name of a node: a random number that a server draws when it takes the name. A server writes only in its own
-- epoch, so one that has lost the name overwrites nothing of the other.
CREATE TABLE IF NOT EXISTS node_epoch (
    node  VARBINARY(63) NOT NULL,
    epoch BIGINT NOT NULL,
    PRIMARY KEY (node)
) ENGINE = InnoDB;
