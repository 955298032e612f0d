-- +goose Up
-- One row for each finalized notice. Times are Unix µs.
CREATE TABLE history (
  ended         INTEGER NOT NULL,                            -- by Redis's clock
  id            TEXT NOT NULL,                               -- the webhook-id
  ending        INTEGER NOT NULL,                            -- 1, 2, … of this notice
  app           TEXT NOT NULL,                               -- the four segments of the key
  module        TEXT NOT NULL,
  type          TEXT NOT NULL,
  name          TEXT NOT NULL,
  route         TEXT NOT NULL,                               -- the route's prefix
  host          TEXT NOT NULL,                               -- the called host; '' = none
  outcome       TEXT NOT NULL,                               -- delivered, dead, cancelled, replaced
  reason        TEXT NOT NULL,                               -- why it is dead, else ''
  due           INTEGER NOT NULL,                            -- of the last attempt
  made          INTEGER NOT NULL,                            -- µs since 2020, or Unix ms below 10^13
  attempts_made INTEGER NOT NULL,
  url           TEXT NOT NULL,                               -- the notice's own, without a password
  audience      TEXT NOT NULL,
  method        TEXT NOT NULL,
  content_type  TEXT NOT NULL,
  retry         TEXT,                                        -- the notice's own ladder
  trace         TEXT NOT NULL,
  headers       TEXT NOT NULL,                               -- JSON [["name","value"],…]; ["name"] = the value was a secret
  attempts      TEXT NOT NULL,                               -- JSON
  body_size     INTEGER NOT NULL,
  body_sha256   BLOB,                                        -- set if bodies are hashed
  body_text     TEXT,                                        -- a stored body in UTF-8
  body          BLOB,                                        -- a stored body that is not UTF-8
  PRIMARY KEY (ended, id, ending)                            -- a window, newest first
);

CREATE INDEX history_key ON history (app, module, type, name, ended);
CREATE INDEX history_host ON history (host, ended);
CREATE INDEX history_undelivered ON history (ended) WHERE outcome <> 'delivered';

-- Erasures, so that entries still in an outbox are not written afterwards.
CREATE TABLE history_erased (
  digest BLOB PRIMARY KEY,                                   -- SHA-256 of "key <key>" or "host <host>"
  at     INTEGER NOT NULL                                    -- entries that ended until then are not written
) WITHOUT ROWID;
