-- +goose Up
-- How far the outboxes of each Redis are. An erasure is recorded until all of them have passed it.
CREATE TABLE history_outboxes (
  home   text PRIMARY KEY,                                   -- the field home of <namespace>:meta in Redis
  passed timestamptz NOT NULL                                -- notices that ended until then are in the history
);
