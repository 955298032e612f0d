-- +goose Up
-- How far the outboxes of each Redis are. An erasure is recorded until all of them have passed it.
CREATE TABLE history_outboxes (
  home   TEXT PRIMARY KEY,                                   -- the field home of <namespace>:meta in Redis
  passed INTEGER NOT NULL                                    -- notices that ended until then are in the history
);
