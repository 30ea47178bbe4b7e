-- What lists find runs and letters by: the searchable fields of a run's input, an object of texts, and
-- when a letter's task failed. The release before leaves both as they are.
ALTER TABLE runs ADD COLUMN fields jsonb;
CREATE INDEX runs_fields ON runs USING gin (fields jsonb_path_ops) WHERE fields IS NOT NULL;
ALTER TABLE letters ADD COLUMN failed bigint;

-- What each node reported last of itself.
CREATE TABLE reports (
    node text COLLATE "C" PRIMARY KEY,
    body bytea NOT NULL,
    at bigint NOT NULL,
    sum int NOT NULL
);
