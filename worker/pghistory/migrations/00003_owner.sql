-- +goose Up
-- The one service whose history this is. Another one is refused, see `notifier history claim`.
CREATE TABLE history_owner (
  one       integer PRIMARY KEY CHECK (one = 1),
  namespace text NOT NULL,                                   -- NOTIFIER_NAMESPACE
  id        text NOT NULL,                                   -- the field id of <namespace>:meta in Redis
  since     timestamptz NOT NULL                             -- when it was taken or claimed
);
