-- +goose Up
-- The one service whose history this is. Another one is refused, see `notifier history claim`.
CREATE TABLE history_owner (
  one       INTEGER PRIMARY KEY CHECK (one = 1),
  namespace TEXT NOT NULL,                                   -- NOTIFIER_NAMESPACE
  id        TEXT NOT NULL,                                   -- the field id of <namespace>:meta in Redis
  since     INTEGER NOT NULL                                 -- when it was taken or claimed
);
