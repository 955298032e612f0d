-- +goose Up
-- The encrypted data keys of sealed entries, as in Redis, which may lose them.
CREATE TABLE history_seals (
  name  text COLLATE "C" PRIMARY KEY,
  value text NOT NULL
);
