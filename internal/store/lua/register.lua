-- Registers an instance's prefixes in a current or old shard, and returns all prefixes of the shard. No prefix is ever removed.
-- KEYS  1 layout  2 routes
-- ARGV  1 layout version  2 shard count  3 "1" = write these two (notifier:meta has them), "0" = they must be stored already
--       4 "<n>" = there is a history, and the shard's outbox holds at most n entries; "0" = there is none any more; "" = no change
--       5 the shards' tags, comma-separated; "" = their numbers
--       6 the old shards' tags, 7 their number per reshard, both comma-separated; "" = none
--       8 the number of places, old shards included  9 the index of this place
--       10 "<epoch> <state> <id> <other>" of the last migration (side.go), "" = none
--       11 the data identity; "" = unknown  12 the id of the shard's data if it has none (identity.go)
--       then prefixes
-- Reply {state, history, identity, id, prefix…}: history as above, "0" = none; the stored identity, "" = none; the stored id of the
--       shard's data; every prefix of the shard, sorted. state is the digest of history, prefixes and ARGV 1, 2, 5, 6, 7 and 10, which
--       guard.lua compares. A "+" follows it if the old shards are empty, as noted by whole.lua
--       {"", layout, shards, migration}: other values are stored, "" = none, and nothing was written
-- Bound the prefixes of all configurations so far.
-- Each reshard adds places, and each step of a migration has a higher epoch. So a late call from an earlier layout changes nothing.
local had = redis.call('HMGET', KEYS[1], 'layout', 'shards', 'state', 'tags', 'places', 'side', 'empty', 'id', 'part')
local function epoch(side)
  local n = string.match(side or '', '^%d+')
  return tonumber(n or 0)
end
if epoch(had[6]) > epoch(ARGV[10]) then return {'', had[1] or '', had[2] or '', had[6]} end
local places, now = tonumber(had[5] or had[2]) or 0, tonumber(ARGV[8])
if had[1] ~= ARGV[1] or had[2] ~= ARGV[2] or places ~= now then
  if ARGV[3] ~= '1' or had[1] == ARGV[1] and places > now then return {'', had[1] or '', had[2] or '', ''} end
  redis.call('HSET', KEYS[1], 'layout', ARGV[1], 'shards', ARGV[2])
  if ARGV[6] ~= '' then
    redis.call('HSET', KEYS[1], 'former', ARGV[6], 'replaced', ARGV[7], 'places', ARGV[8], 'place', ARGV[9])
  end
end
if ARGV[5] ~= (had[4] or '') then redis.call('HSET', KEYS[1], 'tags', ARGV[5]) end
if epoch(ARGV[10]) > epoch(had[6]) then redis.call('HSET', KEYS[1], 'side', ARGV[10]) end
local identity, part = had[8] or '', had[9] or ARGV[12]
if ARGV[11] ~= '' and ARGV[11] ~= identity and (identity == '' or ARGV[3] == '1') then
  identity = ARGV[11]
  redis.call('HSET', KEYS[1], 'id', identity)
end
if not had[9] then redis.call('HSET', KEYS[1], 'part', part) end
for i = 13, #ARGV do redis.call('SADD', KEYS[2], ARGV[i]) end
local history = redis.call('HGET', KEYS[1], 'history') or '0'
if ARGV[4] ~= '' and ARGV[4] ~= history then
  history = ARGV[4]
  redis.call('HSET', KEYS[1], 'history', history)
end
local all = redis.call('SMEMBERS', KEYS[2])
table.sort(all)
local state = redis.sha1hex(ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. table.concat(all, ' ') .. (history ~= '0' and ' history' or '') ..
  (ARGV[6] ~= '' and ' places ' .. ARGV[6] .. ' ' .. ARGV[7] .. ' ' .. ARGV[5] or '') ..
  (ARGV[10] ~= '' and not string.find(ARGV[10], '^%d+ open ') and ' side ' .. ARGV[10] or '')) ..
  (ARGV[6] ~= '' and had[7] == ARGV[8] and '+' or '')
if had[3] ~= state then redis.call('HSET', KEYS[1], 'state', state) end
return {state, history, identity, part, unpack(all)}
