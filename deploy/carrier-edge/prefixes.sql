-- The prefixes of deploy/carrier-edge/tandem.toml, in the database of Tandem or a copy of your own. Tandem only reads the table.
-- plan: the rate plan of the callers, which rules name as `prefixes`. prefix: digits, or `default`. groups: gateway groups in their order.
-- One transaction for each change: then a reload sees all of it or nothing.

CREATE TABLE prefix_route (
    plan VARCHAR(64) NOT NULL,
    prefix VARCHAR(32) NOT NULL,
    groups VARCHAR(255) NOT NULL,
    PRIMARY KEY (plan, prefix)
);

INSERT INTO prefix_route (plan, prefix, groups) VALUES
    ('retail', '49', 'north;south'),
    ('retail', '4930', 'north'),
    ('retail', 'default', 'south;north'),
    ('wholesale', '49', 'south'),
    ('wholesale', '4930', 'north;south');

GRANT SELECT ON prefix_route TO tandem;
