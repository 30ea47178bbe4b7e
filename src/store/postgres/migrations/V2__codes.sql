-- The error code of a run's newest dead letter, for lists: here alone, so that the release before can
-- read the records. It leaves the code as it is.
ALTER TABLE runs ADD COLUMN code text COLLATE "C";
CREATE INDEX runs_code ON runs (code, created, run) WHERE code IS NOT NULL;
