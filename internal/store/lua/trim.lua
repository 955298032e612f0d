-- Forgets settled notices of one route and shard that are too old or too many.
-- KEYS  1 settled  2 records
-- ARGV  1 keep so many ms  2 keep so many  3 forget at most so many  4 for being too many, forget none younger than so many ms
-- Reply how many were forgotten
-- Bound ARGV[3].
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local limit = tonumber(ARGV[3])
local old = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - tonumber(ARGV[1])), 'LIMIT', 0, limit)
if #old == 0 then
  local over = redis.call('ZCARD', KEYS[1]) - tonumber(ARGV[2])
  if over <= 0 then return 0 end
  old = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - tonumber(ARGV[4])) .. '.99', 'LIMIT', 0, math.min(over, limit))
  if #old == 0 then return 0 end
end
redis.call('ZREM', KEYS[1], unpack(old))
redis.call('HDEL', KEYS[2], unpack(old))
return #old
