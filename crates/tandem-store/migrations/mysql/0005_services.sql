-- Addresses and numbers that lead to a subscriber (user@domain). An empty domain stands for all domains of the server.
CREATE TABLE IF NOT EXISTS alias (
    username   VARBINARY(512) NOT NULL,
    domain     VARBINARY(255) NOT NULL,
    subscriber VARBINARY(1024) NOT NULL,
    PRIMARY KEY (username, domain)
) ENGINE = InnoDB;

-- Where calls to a subscriber go instead: SIP URIs. An empty text stands for none. The time that the phones ring is in seconds.
CREATE TABLE IF NOT EXISTS forwarding (
    username          VARBINARY(512) NOT NULL,
    domain            VARBINARY(255) NOT NULL,
    always            VARBINARY(1024) NOT NULL,
    busy              VARBINARY(1024) NOT NULL,
    no_answer         VARBINARY(1024) NOT NULL,
    no_answer_seconds INTEGER UNSIGNED NOT NULL,
    not_registered    VARBINARY(1024) NOT NULL,
    PRIMARY KEY (username, domain)
) ENGINE = InnoDB;
