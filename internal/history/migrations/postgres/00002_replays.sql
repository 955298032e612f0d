-- +goose Up
-- What was asked to be sent again, and how far that is. The service removes it 30 days after the last change.
CREATE TABLE history_replays (
  id      text COLLATE "C" PRIMARY KEY,
  state   text NOT NULL,                                     -- running, stopped, done, failed
  reason  text NOT NULL,                                     -- why it failed, else ''
  client  text NOT NULL,                                     -- who made it
  prefix  text COLLATE "C" NOT NULL,                         -- of the keys; '' = all
  host    text NOT NULL,                                     -- that was called; '' = all
  about   text NOT NULL,                                     -- JSON: what else was asked for, and what was refused
  total   bigint NOT NULL,                                   -- of items
  done    bigint NOT NULL,                                   -- the number of the last item that is done
  counts  text NOT NULL,                                     -- JSON: how many had which result
  made    timestamptz NOT NULL,
  changed timestamptz NOT NULL,
  driver  text NOT NULL,                                     -- which process drives it; '' = none
  lease   timestamptz NOT NULL                               -- until when
);

-- The notices of each replay that is not done, numbered when it was made.
CREATE TABLE history_replay_items (
  replay  text COLLATE "C" NOT NULL,
  number  bigint NOT NULL,                                   -- 1, 2, …
  shard   integer NOT NULL,                                  -- of its key
  ended   timestamptz NOT NULL,                              -- these three name the row of history that it is sent from
  id      text COLLATE "C" NOT NULL,
  ending  integer NOT NULL,
  app     text COLLATE "C" NOT NULL,                         -- the four parts of the key; '' = it was erased
  module  text COLLATE "C" NOT NULL,
  type    text COLLATE "C" NOT NULL,
  name    text COLLATE "C" NOT NULL,
  PRIMARY KEY (replay, number)
);
