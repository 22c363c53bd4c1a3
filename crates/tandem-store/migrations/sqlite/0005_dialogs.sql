-- Calls in progress, so that a restarted server knows them. A row belongs to the node that serves the call. The state is what the node
-- needs to continue the call, in the encoding of the crate sip-dialog.
CREATE TABLE dialog (
    node       TEXT NOT NULL,
    id         BLOB NOT NULL,
    expires_at INTEGER NOT NULL,
    state      BLOB NOT NULL,
    PRIMARY KEY (node, id)
) WITHOUT ROWID;
