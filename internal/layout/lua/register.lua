-- Makes an instance's prefixes known in a shard, or in a former one, and tells what is known there. No prefix is ever removed.
-- KEYS  1 layout  2 routes
-- ARGV  1 layout version  2 shard count  3 "1" = write these two (notifier:meta says the same), "0" = they must be there
--       4 "<n>" = there is a history, for which the shard holds n endings at most; "0" = there is none any more; "" = as it stands
--       5 the shards' tags, comma-separated; "" = their numbers
--       6 the tags of former shards, 7 how many of them there were at a time, both comma-separated; "" = none
--       8 how many places there are, former shards included  9 the number of this one
--       10 "<epoch> <state> <id> <other>" of the last migration (side.go), "" = none
--       then prefixes
-- Reply {state, history, prefix…}: history as above, "0" = none; every prefix of the shard, sorted; state is a digest of all
--       this but n, by which guard.lua knows it, and "+" behind it where the former shards hold nothing, as whole.lua notes
--       {"", layout, shards, migration}: these stand there instead, "" = none, and nothing was written
-- Bound the prefixes that configurations ever had.
-- There are more places after each reshard, and each step of a migration has a higher epoch: what comes from before one, however
-- late, undoes nothing.
local had = redis.call('HMGET', KEYS[1], 'layout', 'shards', 'state', 'tags', 'places', 'side', 'empty')
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
for i = 11, #ARGV do redis.call('SADD', KEYS[2], ARGV[i]) end
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
return {state, history, unpack(all)}
