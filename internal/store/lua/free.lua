-- Ends the wait of a sequence for a notice in flight that was cancelled or replaced. order.lua is added before it.
-- KEYS  1 shadow
-- ARGV  1 wake channel  2 "<shard> <route>"  3 key and 4 token of the notice in flight
-- Reply 1 = a notice of the sequence is due now that has waited, else 0
-- Bound one sequence.
local t = redis.call('TIME')
local q = order(KEYS[1], t)
if not q then return 0 end
q.free(ARGV[3], ARGV[4])
if not q.finish() then return 0 end
redis.pcall('PUBLISH', ARGV[1], string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000)) .. ' ' .. ARGV[2])
return 1
