-- Ends the wait of sequences for a notice in flight that was cancelled or replaced, or for dead letters that do not hold back their
-- successors any more.
-- KEYS  1 shadow
-- ARGV  1 wake channel  2 "<shard> <route>"  3 token of the notice in flight, "" = the keys are those of dead letters  then keys
-- Reply how many of the keys are pending heads; all if dead letters still hold back their successors here. With a token 0
-- PARTS score record clock order order/marks order/places order/finish wake
-- Bound the keys given.
local q = order(KEYS[1], t)
if not q then return 0 end
if ARGV[3] == '' and q.blocks then return #ARGV - 3 end
local pending = 0
for i = 4, #ARGV do
  if ARGV[3] ~= '' then
    q.free(ARGV[i], ARGV[3])
  elseif redis.call('ZSCORE', KEYS[1], ARGV[i]) then
    pending = pending + 1
  else
    q.leave(ARGV[i])
  end
end
if q.finish() then wake(now, KEYS[1], ARGV[1], ARGV[2]) end
return pending
