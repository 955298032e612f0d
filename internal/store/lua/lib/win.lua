-- The common part of claim.lua, sweep.lua, recover.lua and takeover.lua: claims notices of one route and shard for a lease.
-- KEYS  1 shadow  2 records
-- ARGV  1 claim prefix  2 token  3 lease ms  4 maximum bytes of records; then the arguments of each script
-- Needs score, leases, order, held and clock; the loop that claims by key is in try.lua.
-- Reply {now us, left, key, answer, record…}; each script defines left. An answer is
--       "<score before> <expired> <score now>"  won; expired counts the expired leases. The score before is "-" if this token had won
--         the notice already: the claim was sent twice, or its reply was lost. Its lease then starts again. The record is "" if missing
--       0   lost: another claim holds the notice
--       -1  stale: the notice is not pending, or not due yet; then the record is replaced by its score
--       -2  parked: an earlier notice of its sequence is pending, or one is in flight: see order.lua
--       The last key is "" where redirects are running in this shard: its answer has their ids and rules in turn: see package jobs.
-- Bound ARGV[4] bytes, exceeded by at most 16 records, or if all are as large as the first, by four, and by one where ARGV[4] is below
-- 1 MiB; 100 rules; and the bound of each script.
-- The new score is the end of the lease plus (1 + expired) * onelease. So the sweep finds the notice of a holder that died like any other
-- due notice, and the fraction counts the expired leases. Higher fractions mean no claim: see score.go.
local call, format, floor = redis.call, string.format, math.floor
local prefix, token, lease, bytes, left = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), 0
local reply, size = {t[1] * 1000000 + t[2], 0}, 2
local over = now + tonumber(lease)
-- Counts what shards seldom have in one command: ordered routes, and running redirects.
local base = string.sub(KEYS[1], 1, string.find(KEYS[1], '}:', 1, true) + 1)
local present = call('EXISTS', base .. 'ordered', base .. 'redirecting')
local q = present > 0 and order(KEYS[1], t)
-- The score of a claim without an expired lease before it.
local first = format('%.17g', over + onelease)
local plain = ' 0 ' .. first
local moves, moved = {}, 0
local won, place, ends, wins = {}, {}, {}, 0
-- The number of records to read at once.
local group, largest = bytes < 1048576 and 1 or 4, 1

-- Reads the records of the notices just won, in groups, so that their size is known before more notices are claimed.
local function read()
  if wins == 0 then return end
  local records = call('HMGET', KEYS[2], unpack(won))
  for j = 1, wins do
    local record = records[j] or ''
    bytes, largest = bytes - #record, math.max(largest, #record)
    reply[place[j] + 1] = record
    moves[moved + 1], moves[moved + 2] = ends[j], won[j]
    moved = moved + 2
  end
  won, place, ends, wins = {}, {}, {}, 0
  group = math.max(1, math.min(16, floor(bytes / largest)))
end

-- Claims a notice again that this token has won before. The lease starts now.
local function renew(key, expired)
  wins = wins + 1
  won[wins], place[wins], ends[wins] = key, size + 2, format('%.17g', over + expired * onelease)
  call('PEXPIRE', prefix .. key, lease)
  if q then q.renew(key, token, lease) end
  return '- ' .. (expired - 1) .. ' ' .. ends[wins]
end

-- Writes the scores of all notices won.
local function done()
  read()
  if moved > 0 then call('ZADD', KEYS[1], unpack(moves)) end
  local rules = moved > 0 and present > (q and 1 or 0) and call('HGETALL', base .. 'redirecting') or {}
  if #rules > 0 then reply[size + 1], reply[size + 2], reply[size + 3] = '', rules, '' end
  reply[2] = left
  return reply
end
