-- +goose Up
-- The entries of each hour in UTC, counted in the transaction that inserts or erases them.
CREATE TABLE history_hours (
  hour   INTEGER NOT NULL,                                   -- its start
  app    TEXT NOT NULL,                                      -- the first three segments of the key
  module TEXT NOT NULL,
  type   TEXT NOT NULL,
  route  TEXT NOT NULL,
  host   TEXT NOT NULL,
  what   INTEGER NOT NULL,                                   -- ending 1: 0 to 999 delivered, in this bin of the latency; 1000 more at the
                                                             -- first attempt; -1 dead, -2 cancelled, -3 replaced. Ending 2 and
                                                             -- later: -10 delivered, -11 dead, -12 cancelled, -13 replaced
  n      INTEGER NOT NULL,                                   -- number of entries
  PRIMARY KEY (hour, app, module, type, route, host, what)
) WITHOUT ROWID;

-- How far back the entries of before this table have been counted.
CREATE TABLE history_counted (
  one   INTEGER PRIMARY KEY CHECK (one = 1),
  since INTEGER NOT NULL                                     -- 1970 = all
);
