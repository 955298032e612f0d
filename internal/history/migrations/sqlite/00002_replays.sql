-- +goose Up
-- What was asked to be sent again, and how far that is. The service removes it 30 days after the last change.
CREATE TABLE history_replays (
  id      TEXT PRIMARY KEY,
  state   TEXT NOT NULL,                                     -- running, stopped, done, failed
  reason  TEXT NOT NULL,                                     -- why it failed, else ''
  client  TEXT NOT NULL,                                     -- who made it
  prefix  TEXT NOT NULL,                                     -- of the keys; '' = all
  host    TEXT NOT NULL,                                     -- that was called; '' = all
  about   TEXT NOT NULL,                                     -- JSON: what else was asked for, and what was refused
  total   INTEGER NOT NULL,                                  -- of items
  done    INTEGER NOT NULL,                                  -- the number of the last item that is done
  counts  TEXT NOT NULL,                                     -- JSON: how many had which result
  made    INTEGER NOT NULL,
  changed INTEGER NOT NULL,
  driver  TEXT NOT NULL,                                     -- which process drives it; '' = none
  lease   INTEGER NOT NULL                                   -- until when
);

-- The notices of each replay that is not done, numbered when it was made.
CREATE TABLE history_replay_items (
  replay  TEXT NOT NULL,
  number  INTEGER NOT NULL,                                  -- 1, 2, …
  shard   INTEGER NOT NULL,                                  -- of its key
  ended   INTEGER NOT NULL,                                  -- these three name the row of history that it is sent from
  id      TEXT NOT NULL,
  ending  INTEGER NOT NULL,
  app     TEXT NOT NULL,                                     -- the four parts of the key; '' = it was erased
  module  TEXT NOT NULL,
  type    TEXT NOT NULL,
  name    TEXT NOT NULL,
  PRIMARY KEY (replay, number)
) WITHOUT ROWID;
