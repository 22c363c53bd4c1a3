-- Who may register and call. No clear-text password: HA1 = H(username:domain:password) of RFC 7616, section 3.4.2.
CREATE TABLE subscriber (
    username   TEXT NOT NULL,
    domain     TEXT NOT NULL,
    ha1_md5    BLOB NOT NULL,
    ha1_sha256 BLOB NOT NULL,
    PRIMARY KEY (username, domain)
) WITHOUT ROWID;

-- One row that counts the changes of subscribers, so that running servers see with one read whether their caches are true.
CREATE TABLE subscriber_version (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    version INTEGER NOT NULL
);
INSERT INTO subscriber_version (id, version) VALUES (1, 0);

-- Which subscriber each of the latest changes touched.
CREATE TABLE subscriber_change (
    version  INTEGER PRIMARY KEY,
    username TEXT NOT NULL,
    domain   TEXT NOT NULL
);

-- One row per binding. What comes from phones is kept as bytes, because nothing makes a phone send valid UTF-8.
CREATE TABLE location (
    address    BLOB NOT NULL,
    contact    BLOB NOT NULL,
    q          INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    call_id    BLOB NOT NULL,
    cseq       INTEGER NOT NULL,
    path       BLOB NOT NULL,
    instance   BLOB NOT NULL,
    user_agent BLOB NOT NULL,
    source     TEXT NOT NULL,
    listener   TEXT NOT NULL,
    full_save  INTEGER NOT NULL,
    PRIMARY KEY (address, contact)
) WITHOUT ROWID;

-- Signs nonces and Record-Route cookies, so that those given out before a restart are good after it.
CREATE TABLE node_secret (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    secret BLOB NOT NULL
);
