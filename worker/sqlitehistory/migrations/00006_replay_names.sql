-- +goose Up
-- The id that a client gives a replay is its own: two clients may give the same one. The column id stays unique.
ALTER TABLE history_replays ADD COLUMN name TEXT NOT NULL DEFAULT '';   -- as the client gave it; '' = id, of the version before
UPDATE history_replays SET name = id;
CREATE UNIQUE INDEX history_replays_name ON history_replays (client, name) WHERE name <> '';
