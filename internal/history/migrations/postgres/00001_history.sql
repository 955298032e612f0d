-- +goose Up
-- One row for each ending of a notice. A partition holds a day of UTC; the service makes and drops them.
CREATE TABLE history (
  ended         timestamptz NOT NULL,                        -- by Redis's clock
  id            text COLLATE "C" NOT NULL,                   -- the webhook-id
  ending        integer NOT NULL,                            -- 1, 2, … of this notice
  app           text COLLATE "C" NOT NULL,                   -- the four parts of the key
  module        text COLLATE "C" NOT NULL,
  type          text COLLATE "C" NOT NULL,
  name          text COLLATE "C" NOT NULL,
  route         text COLLATE "C" NOT NULL,                   -- the route's prefix
  host          text COLLATE "C" NOT NULL,                   -- that was called; '' = none
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
  body_sha256   bytea,                                       -- where bodies are hashed
  body_text     text,                                        -- where they are kept, in UTF-8
  body          bytea,                                       -- where they are kept and are not
  PRIMARY KEY (ended, id, ending)                            -- a window, newest first
) PARTITION BY RANGE (ended);

CREATE INDEX history_key ON history (app, module, type, name, ended);               -- one key, or those under a prefix
CREATE INDEX history_host ON history (host, ended);                                 -- a host within a window
CREATE INDEX history_undelivered ON history (ended) WHERE outcome <> 'delivered';   -- few among many

-- What was erased must not come again from what was still on its way.
CREATE TABLE history_erased (
  digest bytea PRIMARY KEY,                                  -- SHA-256 of "key <key>" or "host <host>"
  at     timestamptz NOT NULL                                -- of what ended until then nothing is kept
);
