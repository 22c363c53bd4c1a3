-- Calls in progress, so that a restarted server knows them. A row belongs to the node that serves the call. The state is what the node
-- needs to continue the call, in the encoding of the crate sip-dialog.
CREATE TABLE dialog (
    node       TEXT NOT NULL,
    id         BYTEA NOT NULL,
    expires_at BIGINT NOT NULL,
    state      BYTEA NOT NULL,
    PRIMARY KEY (node, id)
-- Room on each page for the next version of a row: a refresh then changes no index.
) WITH (fillfactor = 80);
