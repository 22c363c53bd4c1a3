-- Addresses and numbers that lead to a subscriber (user@domain). An empty domain stands for all domains of the server.
CREATE TABLE alias (
    username   TEXT NOT NULL,
    domain     TEXT NOT NULL,
    subscriber TEXT NOT NULL,
    PRIMARY KEY (username, domain)
) WITHOUT ROWID;

-- Where calls to a subscriber go instead: SIP URIs. An empty text stands for none. The time that the phones ring is in seconds.
CREATE TABLE forwarding (
    username          TEXT NOT NULL,
    domain            TEXT NOT NULL,
    always            TEXT NOT NULL,
    busy              TEXT NOT NULL,
    no_answer         TEXT NOT NULL,
    no_answer_seconds INTEGER NOT NULL,
    not_registered    TEXT NOT NULL,
    PRIMARY KEY (username, domain)
) WITHOUT ROWID;
