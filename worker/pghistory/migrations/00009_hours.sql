-- +goose Up
-- The entries of each hour in UTC, counted in the transaction that inserts or erases them.
CREATE TABLE history_hours (
  hour   timestamptz NOT NULL,                               -- its start
  app    text COLLATE "C" NOT NULL,                          -- the first three segments of the key
  module text COLLATE "C" NOT NULL,
  type   text COLLATE "C" NOT NULL,
  route  text COLLATE "C" NOT NULL,
  host   text COLLATE "C" NOT NULL,
  what   smallint NOT NULL,                                  -- ending 1: 0 to 999 delivered, in this bin of the latency; 1000 more at the
                                                             -- first attempt; -1 dead, -2 cancelled, -3 replaced. Ending 2 and
                                                             -- later: -10 delivered, -11 dead, -12 cancelled, -13 replaced
  n      bigint NOT NULL,                                    -- number of entries
  PRIMARY KEY (hour, app, module, type, route, host, what)
) WITH (fillfactor = 80);                                    -- n changes in place

-- How far back the entries of before this table have been counted.
CREATE TABLE history_counted (
  one   integer PRIMARY KEY CHECK (one = 1),
  since timestamptz NOT NULL                                 -- 1970 = all
);
