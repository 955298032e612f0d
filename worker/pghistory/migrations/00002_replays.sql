-- +goose Up
-- Replays with their progress. The service deletes a replay 30 days after its last change.
CREATE TABLE history_replays (
  id      text COLLATE "C" PRIMARY KEY,
  state   text NOT NULL,                                     -- running, stopped, done, failed
  reason  text NOT NULL,                                     -- why it failed, else ''
  client  text NOT NULL,                                     -- the client that created it
  prefix  text COLLATE "C" NOT NULL,                         -- of the keys; '' = all
  host    text NOT NULL,                                     -- the called host; '' = all
  about   text NOT NULL,                                     -- JSON: the rest of the request, and the refusals
  total   bigint NOT NULL,                                   -- number of items
  done    bigint NOT NULL,                                   -- the number of the last item that is done
  counts  text NOT NULL,                                     -- JSON: number of items by result
  made    timestamptz NOT NULL,
  changed timestamptz NOT NULL,
  driver  text NOT NULL,                                     -- process that drives it; '' = none
  lease   timestamptz NOT NULL                               -- end of its hold
);

-- The notices of each replay that is not done, numbered when it was created.
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
