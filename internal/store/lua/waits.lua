-- Reads which notices of one route and shard are parked, and for which notice each of them waits.
-- KEYS  1 shadow
-- ARGV  the keys
-- Reply for each key {score, parked, other}: score is in the shadow, "" if the notice is not pending; parked is 1 or 0; other is the key
--       of the notice that it waits for: the one in flight, or else the head of the sequence; "" if that has just ended
-- PARTS score record order order/awaited
-- Bound the keys given.
local q = order(KEYS[1], redis.call('TIME'))
local reply = {}
for i, key in ipairs(ARGV) do
  local parked = q and q.waits(key)
  local other = parked and q.awaited(key)
  reply[i] = {redis.call('ZSCORE', KEYS[1], key) or '', parked and 1 or 0, other and other ~= key and other or ''}
end
return reply
