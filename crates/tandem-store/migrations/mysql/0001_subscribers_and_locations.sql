-- MySQL and MariaDB commit each statement that changes tables. If a start is interrupted, the next one runs the whole file again, so each
-- statement must be repeatable.

-- Who may register and call. No clear-text password: HA1 = H(username:domain:password) of RFC 7616, section 3.4.2. Names are bytes in
-- UTF-8: comparisons of text would ignore case or spaces at the end.
CREATE TABLE IF NOT EXISTS subscriber (
    username   VARBINARY(512) NOT NULL,
    domain     VARBINARY(255) NOT NULL,
    ha1_md5    VARBINARY(16) NOT NULL,
    ha1_sha256 VARBINARY(32) NOT NULL,
    PRIMARY KEY (username, domain)
) ENGINE = InnoDB;

-- One row that counts the changes of subscribers, so that running servers see with one read whether their caches are true. A transaction
-- that changes subscribers locks it first.
CREATE TABLE IF NOT EXISTS subscriber_version (
    id      INTEGER PRIMARY KEY,
    version BIGINT NOT NULL
) ENGINE = InnoDB;
INSERT IGNORE INTO subscriber_version (id, version) VALUES (1, 0);

-- Which subscriber each of the latest changes touched, and whether the change also ends what the subscriber has registered.
CREATE TABLE IF NOT EXISTS subscriber_change (
    version            BIGINT PRIMARY KEY,
    username           VARBINARY(512) NOT NULL,
    domain             VARBINARY(255) NOT NULL,
    ends_registrations BOOLEAN NOT NULL
) ENGINE = InnoDB;

-- One row per binding. What comes from phones is kept as bytes, because nothing makes a phone send valid UTF-8. The node is the one that
-- wrote the row; a node deletes only its own rows. An index holds only the beginning of an address of record, which may have 8,192 bytes.
-- The digest is SHA-256(SHA-256(address), contact).
CREATE TABLE IF NOT EXISTS location (
    address    VARBINARY(8192) NOT NULL,
    contact    VARBINARY(8192) NOT NULL,
    digest     BINARY(32) NOT NULL,
    q          SMALLINT UNSIGNED NOT NULL,
    expires_at INTEGER UNSIGNED NOT NULL,
    call_id    VARBINARY(8192) NOT NULL,
    cseq       INTEGER UNSIGNED NOT NULL,
    path       VARBINARY(8192) NOT NULL,
    instance   VARBINARY(8192) NOT NULL,
    user_agent BLOB NOT NULL,
    source     VARBINARY(64) NOT NULL,
    listener   VARBINARY(255) NOT NULL,
    node       VARBINARY(63) NOT NULL,
    full_save  BIGINT NOT NULL,
    PRIMARY KEY (address(255), digest)
) ENGINE = InnoDB;

-- Signs nonces and Record-Route cookies, so that those given out before a restart are good after it.
CREATE TABLE IF NOT EXISTS node_secret (
    id     INTEGER PRIMARY KEY,
    secret VARBINARY(255) NOT NULL
) ENGINE = InnoDB;
