-- +goose Up
-- The last UTC day since 1970 with an entry that needs the key. The retention deletes the key after it.
ALTER TABLE history_seals ADD COLUMN used INTEGER NOT NULL DEFAULT 0;
UPDATE history_seals SET used = unixepoch() / 86400;
CREATE INDEX history_seals_used ON history_seals (used);
