-- Who may register and call. No clear-text password: HA1 = H(username:domain:password) of RFC 7616, section 3.4.2.
CREATE TABLE subscriber (
    username   TEXT COLLATE "C" NOT NULL,
    domain     TEXT COLLATE "C" NOT NULL,
    ha1_md5    BYTEA NOT NULL,
    ha1_sha256 BYTEA NOT NULL,
    PRIMARY KEY (username, domain)
);

-- One row that counts the changes of subscribers, so that running servers see with one read whether their caches are true. A transaction
-- that changes subscribers locks it first.
CREATE TABLE subscriber_version (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    version BIGINT NOT NULL
);
INSERT INTO subscriber_version (id, version) VALUES (1, 0);

-- Which subscriber each of the latest changes touched, and whether the change also ends what the subscriber has registered.
CREATE TABLE subscriber_change (
    version            BIGINT PRIMARY KEY,
    username           TEXT NOT NULL,
    domain             TEXT NOT NULL,
    ends_registrations BOOLEAN NOT NULL
);

-- One row per binding. What comes from phones is kept as bytes, because nothing makes a phone send valid UTF-8. The node is the one that
-- wrote the row; a node deletes only its own rows.
CREATE TABLE location (
    address    BYTEA NOT NULL,
    contact    BYTEA NOT NULL,
    digest     BYTEA NOT NULL,
    q          INTEGER NOT NULL,
    expires_at BIGINT NOT NULL,
    call_id    BYTEA NOT NULL,
    cseq       BIGINT NOT NULL,
    path       BYTEA NOT NULL,
    instance   BYTEA NOT NULL,
    user_agent BYTEA NOT NULL,
    source     TEXT NOT NULL,
    listener   TEXT NOT NULL,
    node       TEXT NOT NULL,
    full_save  BIGINT NOT NULL
-- Room on each page for the next version of a row: a refresh then changes no index.
) WITH (fillfactor = 80);

-- An entry of an index holds about 2,700 bytes, an address of record up to 8,192. The digest is SHA-256(SHA-256(address), contact).
CREATE UNIQUE INDEX location_key ON location (substring(address, 1, 255), digest);

-- Signs nonces and Record-Route cookies, so that those given out before a restart are good after it.
CREATE TABLE node_secret (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    secret BYTEA NOT NULL
);
