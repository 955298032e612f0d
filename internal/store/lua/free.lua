-- Ends the wait of a sequence for a notice in flight that was cancelled or replaced.
-- KEYS  1 shadow
-- ARGV  1 wake channel  2 "<shard> <route>"  3 key and 4 token of the notice in flight
-- Reply 1 = a notice of the sequence is due now that has waited, else 0
-- PARTS score record clock order order/marks order/places order/finish wake
-- Bound one sequence.
local q = order(KEYS[1], t)
if not q then return 0 end
q.free(ARGV[3], ARGV[4])
if not q.finish() then return 0 end
wake(now, KEYS[1], ARGV[1], ARGV[2])
return 1
