-- Deletes settled and dead notices of one route and shard before their retention ends.
-- KEYS  1 shadow  2 records  3 dead  4 settled
-- ARGV  keys
-- Reply {deleted, pending, key…}: how many were deleted; how many are pending and were kept; the keys of those that are not here
-- PARTS score record order order/marks order/places order/finish
-- Bound the number of keys given.
local forgotten, pending, absent = 0, 0, {}
local q = order(KEYS[1], redis.call('TIME'))
for _, key in ipairs(ARGV) do
  if redis.call('ZSCORE', KEYS[1], key) then
    pending = pending + 1
  else
    local dead, settled = redis.call('ZREM', KEYS[3], key), redis.call('ZREM', KEYS[4], key)
    if redis.call('HDEL', KEYS[2], key) + dead + settled > 0 then
      forgotten = forgotten + 1
    else
      absent[#absent + 1] = key
    end
    if q then q.leave(key) end
  end
end
if q then q.finish() end
return {forgotten, pending, unpack(absent)}
