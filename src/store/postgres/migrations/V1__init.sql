-- Times are nanoseconds since 1970 by the database's clock. `sum` is the CRC32C of table name, key
-- and value: a row whose sum is wrong is damaged.

-- The database's clock. Everything that asks for the time asks this function.
CREATE FUNCTION retrial_clock() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000
$$;

-- How far time is ahead of that clock, because the clock was set back; and the last time that was
-- told, once in a while.
CREATE TABLE clock (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    ahead bigint NOT NULL DEFAULT 0,
    seen bigint NOT NULL DEFAULT 0
);
INSERT INTO clock DEFAULT VALUES;

-- The oldest release that may work on these tables, by the last migration that it knows. A migration
-- that only adds leaves it. One that takes away what that release uses raises it.
CREATE TABLE compatible (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    oldest int NOT NULL
);
INSERT INTO compatible (oldest) VALUES (1);

-- The store's time, never before `floor`.
CREATE FUNCTION retrial_now(floor bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT greatest(retrial_clock() + (SELECT ahead FROM clock), $1)
$$;

CREATE FUNCTION retrial_time(nanos bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
    SELECT timestamptz 'epoch' + ($1 / 1000) * interval '1 microsecond'
$$;

-- What is kept of a run beside its events, results, snapshot and rows. The columns after `updated`
-- repeat what lists ask for.
CREATE TABLE runs (
    run uuid PRIMARY KEY,
    record bytea NOT NULL,
    sum int NOT NULL,
    updated bigint NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    phase text COLLATE "C" NOT NULL,
    created bigint NOT NULL,
    letters bigint NOT NULL,
    -- The workflow's name with small letters.
    folded text COLLATE "C" NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX runs_age ON runs (created, run);
CREATE INDEX runs_phase ON runs (phase, created, run);
CREATE INDEX runs_letters ON runs (created, run) INCLUDE (letters) WHERE letters > 0;

-- By the SHA-256 of the submission key.
CREATE TABLE submissions (
    key text COLLATE "C" PRIMARY KEY,
    run uuid NOT NULL,
    sum int NOT NULL
);

CREATE TABLE events (
    run uuid,
    version bigint,
    event bytea NOT NULL,
    sum int NOT NULL,
    PRIMARY KEY (run, version)
);

CREATE TABLE results (
    run uuid,
    place bigint,
    at bigint NOT NULL,
    step int NOT NULL,
    item bigint NOT NULL,
    attempt bigint NOT NULL,
    result bytea NOT NULL,
    sum int NOT NULL,
    PRIMARY KEY (run, place)
);

CREATE TABLE snapshots (
    run uuid PRIMARY KEY,
    version bigint NOT NULL,
    state bytea NOT NULL,
    sum int NOT NULL
);

CREATE TABLE letters (
    run uuid,
    step int,
    item bigint,
    head bytea NOT NULL,
    head_sum int NOT NULL,
    body bytea NOT NULL,
    body_sum int NOT NULL,
    workflow text NOT NULL,
    action text NOT NULL,
    code text NOT NULL,
    waiting boolean NOT NULL,
    PRIMARY KEY (run, step, item)
);

-- A task that waits has `need` and `scheduled`; a leased one `token` and `until`. The columns after
-- `sum` change without a new sum: when and in which turn a waiting task of an active run is claimed,
-- when the lease of such a run's task ends, who has reserved it, and which guard holds it back.
CREATE TABLE queue (
    run uuid,
    step int,
    item bigint,
    attempt bigint NOT NULL,
    need text COLLATE "C",
    scheduled bigint,
    token uuid,
    until bigint,
    deadline bigint,
    beat_by bigint,
    progress bytea,
    sum int NOT NULL,
    due bigint,
    turn bigint,
    ends bigint,
    reserved uuid,
    reserved_until bigint,
    held text COLLATE "C",
    PRIMARY KEY (run, step, item)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
CREATE INDEX queue_due ON queue (need, due, turn) WHERE due IS NOT NULL;
CREATE INDEX queue_ends ON queue (ends, run, step, item) WHERE ends IS NOT NULL;
CREATE INDEX queue_held ON queue (held, turn) WHERE held IS NOT NULL;

-- The turns of waiting tasks: who began to wait first.
CREATE SEQUENCE turns;

-- An action's guards; no state is the state of guards that have seen nothing.
CREATE TABLE guards (
    action text COLLATE "C" PRIMARY KEY,
    state bytea,
    sum int
) WITH (fillfactor = 50);

-- Workflow definitions, of each name the newest revision.
CREATE TABLE definitions (
    name text COLLATE "C" PRIMARY KEY,
    format text NOT NULL,
    definition bytea NOT NULL,
    revision bigint NOT NULL,
    at bigint NOT NULL,
    sum int NOT NULL
);

-- The last claim of each writer that reserved something, to answer it again.
CREATE TABLE claims (
    writer bigint PRIMARY KEY,
    counter bigint NOT NULL,
    until bigint NOT NULL,
    answer bytea NOT NULL
) WITH (fillfactor = 50);

-- What people may look at.
CREATE VIEW retrial_queue AS
SELECT
    run,
    format('%s/%s', step, item) AS task,
    attempt,
    attempt - 1 AS attempt_number,
    CASE
        WHEN ends IS NULL AND due IS NULL THEN 'resting'
        WHEN until IS NOT NULL THEN 'leased'
        WHEN held IS NOT NULL THEN 'held'
        WHEN reserved IS NOT NULL AND reserved_until = due AND due > retrial_now(0) THEN 'reserved'
        ELSE 'waiting'
    END AS status,
    substr(need, 2) AS action,
    retrial_time(scheduled) AS scheduled_at,
    retrial_time(until) AS timeout_at,
    coalesce(token, reserved) AS delivery_token
FROM queue;
