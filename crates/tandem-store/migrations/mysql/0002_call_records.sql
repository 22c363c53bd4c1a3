-- One row per call that has ended. Times are milliseconds since the Unix epoch; texts are valid UTF-8 without NUL, as bytes: comparisons
-- of text would ignore case. The index is for reports about a period, and to delete old records.
CREATE TABLE IF NOT EXISTS call_record (
    id                    VARBINARY(64) NOT NULL PRIMARY KEY,
    node                  VARBINARY(63) NOT NULL,
    call_id               VARBINARY(2048) NOT NULL,
    from_uri              VARBINARY(2048) NOT NULL,
    from_tag              VARBINARY(2048) NOT NULL,
    to_uri                VARBINARY(2048) NOT NULL,
    to_tag                VARBINARY(2048) NOT NULL,
    request_uri           VARBINARY(2048) NOT NULL,
    identity              VARBINARY(2048) NOT NULL,
    source                VARBINARY(64) NOT NULL,
    source_transport      VARBINARY(16) NOT NULL,
    destination           VARBINARY(64),
    destination_transport VARBINARY(16),
    attempts              INTEGER UNSIGNED NOT NULL,
    started               BIGINT NOT NULL,
    ringing               BIGINT,
    answered              BIGINT,
    ended                 BIGINT NOT NULL,
    status                INTEGER UNSIGNED NOT NULL,
    ended_by              VARBINARY(64) NOT NULL,
    reason                VARBINARY(2048) NOT NULL,
    INDEX call_record_ended (ended)
) ENGINE = InnoDB;
