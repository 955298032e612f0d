-- Holds a shard's outbox for the instance that writes its entries to the history, and removes the confirmed entries.
-- KEYS  1 outbox  2 history
-- ARGV  1 token of the holder  2 how long it holds in ms, "0" = it ends its hold  3 number of confirmed entries  4 the last of them
-- Reply {held, removed, left, lost}: held 1, or 0 = another instance holds the outbox and nothing was done; removed 1, or 0 = the
--       confirmed entries are not the first ones any more and were not removed; the number of entries left; the number of entries
--       that were ever dropped because of the bound
-- Bound ARGV[3].
-- The hold only keeps two instances from writing the same entries. Confirmed entries are compared by text before they are removed,
-- so an entry that the history does not have stays, also after a failover to a replica with fewer entries.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local had = redis.call('HMGET', KEYS[2], 'holder', 'until', 'lost')
local lost = tonumber(had[3]) or 0
local till = tonumber(had[2]) or 0
-- A hold that ends later than any hold lasts was written by a clock that was set back since.
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
