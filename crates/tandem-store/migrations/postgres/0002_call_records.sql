-- One row per call that has ended. Times are milliseconds since the Unix epoch; texts are valid UTF-8 without NUL.
CREATE TABLE call_record (
    id                    TEXT NOT NULL PRIMARY KEY,
    node                  TEXT NOT NULL,
    call_id               TEXT NOT NULL,
    from_uri              TEXT NOT NULL,
    from_tag              TEXT NOT NULL,
    to_uri                TEXT NOT NULL,
    to_tag                TEXT NOT NULL,
    request_uri           TEXT NOT NULL,
    identity              TEXT NOT NULL,
    source                TEXT NOT NULL,
    source_transport      TEXT NOT NULL,
    destination           TEXT,
    destination_transport TEXT,
    attempts              INTEGER NOT NULL,
    started               BIGINT NOT NULL,
    ringing               BIGINT,
    answered              BIGINT,
    ended                 BIGINT NOT NULL,
    status                INTEGER NOT NULL,
    ended_by              TEXT NOT NULL,
    reason                TEXT NOT NULL
);

-- For reports about a period, and to delete old records.
CREATE INDEX call_record_ended ON call_record (ended);
