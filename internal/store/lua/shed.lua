-- Forgets the oldest of what has ended in a shard although history has not confirmed it.
-- KEYS  1 ended  2 history
-- ARGV  1 how many at most
-- Reply how many were forgotten; they are counted as lost
-- Bound ARGV[1].
local n = math.min(redis.call('LLEN', KEYS[1]), tonumber(ARGV[1]))
if n > 0 then
  redis.call('LTRIM', KEYS[1], n, -1)
  redis.call('HINCRBY', KEYS[2], 'lost', n)
end
return n
