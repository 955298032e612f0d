-- Drops the oldest entries of a shard's outbox, although they are not in the history yet.
-- KEYS  1 outbox  2 history
-- ARGV  1 how many at most
-- Reply how many were dropped; they are counted as lost
-- Bound ARGV[1].
local n = math.min(redis.call('LLEN', KEYS[1]), tonumber(ARGV[1]))
if n > 0 then
  redis.call('LTRIM', KEYS[1], n, -1)
  redis.call('HINCRBY', KEYS[2], 'lost', n)
end
return n
