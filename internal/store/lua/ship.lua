-- Holds what has ended in a shard for one who brings it to history, and forgets what history has confirmed.
-- KEYS  1 ended  2 history
-- ARGV  1 who  2 for so many ms, "0" = no longer  3 how many are confirmed  4 the last of them, as it was read
-- Reply {ours, forgotten, left, lost}: ours 1 = it is held, 0 = another holds it and nothing was done; forgotten 1, or 0 because
--       what was confirmed does not stand at the beginning any more: nothing was forgotten; how many are left; how many were
--       lost to the bound since ever
-- Bound ARGV[3].
-- The hold keeps two from bringing the same; it protects nothing. What is forgotten is told by its text: whatever became of the
-- list meanwhile, by another's hand or by a failover to a replica that has less, nothing goes that history does not have.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local had = redis.call('HMGET', KEYS[2], 'holder', 'until', 'lost')
local lost = tonumber(had[3]) or 0
local till = tonumber(had[2]) or 0
-- A clock that was set back makes nobody wait for longer than a hold lasts.
if had[1] and had[1] ~= ARGV[1] and till > now and till <= now + 60000 then return {0, 0, redis.call('LLEN', KEYS[1]), lost} end
local n, gone = tonumber(ARGV[3]), 0
if n > 0 and redis.call('LINDEX', KEYS[1], n - 1) == ARGV[4] then
  redis.call('LTRIM', KEYS[1], n, -1)
  gone = 1
end
if ARGV[2] == '0' then
  redis.call('HDEL', KEYS[2], 'holder', 'until')
else
  redis.call('HSET', KEYS[2], 'holder', ARGV[1], 'until', string.format('%.0f', now + ARGV[2]), 'seen', string.format('%.0f', now))
end
return {1, gone, redis.call('LLEN', KEYS[1]), lost}
