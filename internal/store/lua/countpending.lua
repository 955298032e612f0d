-- Counts the pending notices of some routes. Outside a cluster they may be of several shards.
-- KEYS  1 layout of a shard, then the shadow of each route
-- ARGV  none
-- Reply {state, id, n…}: state and id of the shard's data (register.lua), "" = none, and the number of notices of each route; -1 =
--       another type
-- Bound 64 shadows.
local had = redis.call('HMGET', KEYS[1], 'state', 'part')
local reply = {had[1] or '', had[2] or ''}
for i = 2, #KEYS do
  local n = redis.pcall('ZCARD', KEYS[i])
  reply[i + 1] = type(n) == 'number' and n or -1
end
return reply
