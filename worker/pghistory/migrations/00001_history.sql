-- +goose Up
-- One row for each finalized notice. A partition holds one day in UTC; the service creates and drops partitions.
CREATE TABLE history (
  ended         timestamptz NOT NULL,                        -- by Redis's clock
  id            text COLLATE "C" NOT NULL,                   -- the webhook-id
  ending        integer NOT NULL,                            -- 1, 2, … of this notice
  app           text COLLATE "C" NOT NULL,                   -- the four segments of the key
  module        text COLLATE "C" NOT NULL,
  type          text COLLATE "C" NOT NULL,
  name          text COLLATE "C" NOT NULL,
  route         text COLLATE "C" NOT NULL,                   -- the route's prefix
  host          text COLLATE "C" NOT NULL,                   -- the called host; '' = none
  outcome       text COLLATE "C" NOT NULL,                   -- delivered, dead, cancelled, replaced
  reason        text COLLATE "C" NOT NULL,                   -- why it is dead, else ''
  due           timestamptz NOT NULL,                        -- of the last attempt
  made          bigint NOT NULL,                             -- µs since 2020, or Unix ms below 10^13
  attempts_made integer NOT NULL,
  url           text NOT NULL,                               -- the notice's own, without a password
  audience      text NOT NULL,
  method        text NOT NULL,
  content_type  text NOT NULL,
  retry         text,                                        -- the notice's own ladder
  trace         text NOT NULL,
  headers       text NOT NULL,                               -- JSON [["name","value"],…]; ["name"] = the value was a secret
  attempts      text NOT NULL,                               -- JSON
  body_size     integer NOT NULL,
  body_sha256   bytea,                                       -- set if bodies are hashed
  body_text     text,                                        -- a stored body in UTF-8
  body          bytea,                                       -- a stored body that is not UTF-8
  PRIMARY KEY (ended, id, ending)                            -- a window, newest first
) PARTITION BY RANGE (ended);

CREATE INDEX history_key ON history (app, module, type, name, ended);               -- one key, or all keys of a prefix
CREATE INDEX history_host ON history (host, ended);                                 -- a host within a window
CREATE INDEX history_undelivered ON history (ended) WHERE outcome <> 'delivered';   -- few of all rows

-- Erasures, so that entries still in an outbox are not written afterwards.
CREATE TABLE history_erased (
  digest bytea PRIMARY KEY,                                  -- SHA-256 of "key <key>" or "host <host>"
  at     timestamptz NOT NULL                                -- entries that ended until then are not written
);
