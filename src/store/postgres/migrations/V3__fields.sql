-- The searchable fields of a run's input, for lists: an object of texts. The release before leaves the
-- column as it is.
ALTER TABLE runs ADD COLUMN fields jsonb;
CREATE INDEX runs_fields ON runs USING gin (fields jsonb_path_ops) WHERE fields IS NOT NULL;
