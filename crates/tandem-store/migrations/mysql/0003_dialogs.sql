-- Calls in progress, so that a restarted server knows them. A row belongs to the node that serves the call. The state is what the node
-- needs to continue the call, in the encoding of the crate sip-dialog.
CREATE TABLE IF NOT EXISTS dialog (
    node       VARBINARY(63) NOT NULL,
    id         BINARY(16) NOT NULL,
    expires_at INTEGER UNSIGNED NOT NULL,
    state      MEDIUMBLOB NOT NULL,
    PRIMARY KEY (node, id)
) ENGINE = InnoDB;
