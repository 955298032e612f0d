-- Deletes settled and dead notices of one route and shard before their retention ends.
-- KEYS  1 shadow  2 records  3 dead  4 settled
-- ARGV  1 wake channel  2 "<shard> <route>"  then keys
-- Reply {deleted, pending, key…}: how many were deleted; how many are pending and were kept; the keys of those that are not here
-- PARTS score record clock order order/marks order/places order/finish wake
-- Bound the number of keys given.
-- A deleted dead letter may have held back its successors: the first of them is due now.
local forgotten, pending, absent = 0, 0, {}
local q = order(KEYS[1], t)
for i = 3, #ARGV do
  local key = ARGV[i]
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
if q and q.finish() then wake(now, KEYS[1], ARGV[1], ARGV[2]) end
return {forgotten, pending, unpack(absent)}
