-- Counts the pending notices of some routes. Outside a cluster they may be of several shards.
-- KEYS  1 layout of a shard, then the shadow of each route
-- ARGV  none
-- Reply {id, n…}: the id of the shard's data, "" = none, and the number of notices of each route; -1 = another type
-- Bound 64 shadows.
local reply = {redis.call('HGET', KEYS[1], 'part') or ''}
for i = 2, #KEYS do
  local n = redis.pcall('ZCARD', KEYS[i])
  reply[i] = type(n) == 'number' and n or -1
end
return reply
