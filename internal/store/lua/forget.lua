-- Forgets notices of one route and shard that are settled or dead, before their retention has ended.
-- KEYS  1 shadow  2 records  3 dead  4 settled
-- ARGV  keys
-- Reply {forgotten, pending}: how many were there; how many are pending, and stay
-- Bound the number of keys given.
local forgotten, pending = 0, 0
for _, key in ipairs(ARGV) do
  if redis.call('ZSCORE', KEYS[1], key) then
    pending = pending + 1
  else
    local dead, settled = redis.call('ZREM', KEYS[3], key), redis.call('ZREM', KEYS[4], key)
    if redis.call('HDEL', KEYS[2], key) + dead + settled > 0 then forgotten = forgotten + 1 end
  end
end
return {forgotten, pending}
