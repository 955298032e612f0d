-- Removes dead letters from the sequences of a route on which they do not hold back their successors any more.
-- KEYS  1 shadow
-- ARGV  1 wake channel  2 "<shard> <route>"  then the keys of the heads of sequences
-- Reply how many of these are pending; all if dead letters still hold back their successors here
-- PARTS score record clock order order/marks order/places order/finish wake
-- Bound the keys given.
local q = order(KEYS[1], t)
if not q then return 0 end
if q.blocks then return #ARGV - 2 end
local pending = 0
for i, score in ipairs(redis.call('ZMSCORE', KEYS[1], unpack(ARGV, 3))) do
  if score then
    pending = pending + 1
  else
    q.leave(ARGV[i + 2])
  end
end
if q.finish() then wake(now, KEYS[1], ARGV[1], ARGV[2]) end
return pending
