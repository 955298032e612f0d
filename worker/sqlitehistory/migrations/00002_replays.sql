-- +goose Up
-- Replays with their progress. The service deletes a replay 30 days after its last change.
CREATE TABLE history_replays (
  id      TEXT PRIMARY KEY,
  state   TEXT NOT NULL,                                     -- running, stopped, done, failed
  reason  TEXT NOT NULL,                                     -- why it failed, else ''
  client  TEXT NOT NULL,                                     -- the client that created it
  prefix  TEXT NOT NULL,                                     -- of the keys; '' = all
  host    TEXT NOT NULL,                                     -- the called host; '' = all
  about   TEXT NOT NULL,                                     -- JSON: the rest of the request, and the refusals
  total   INTEGER NOT NULL,                                  -- number of items
  done    INTEGER NOT NULL,                                  -- the number of the last item that is done
  counts  TEXT NOT NULL,                                     -- JSON: number of items by result
  made    INTEGER NOT NULL,
  changed INTEGER NOT NULL,
  driver  TEXT NOT NULL,                                     -- process that drives it; '' = none
  lease   INTEGER NOT NULL                                   -- end of its hold
);

-- The notices of each replay that is not done, numbered when it was created.
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
