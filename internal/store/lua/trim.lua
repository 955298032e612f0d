-- Forgets settled notices of some routes of one shard that are too old or too many.
-- KEYS  of each route: settled, records
-- ARGV  1 keep so many ms  2 keep so many of each  3 forget at most so many in all; then for each route: for being too many,
--       forget none younger than so many ms
-- Reply {how many were forgotten}, and the error text of the last route that cannot be read, if there is one
-- Bound 64 routes; ARGV[3] in all.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local limit = tonumber(ARGV[3])
local left, failed = limit, nil
for i = 1, #ARGV - 3 do
  local settled, records = KEYS[2 * i - 1], KEYS[2 * i]
  if left <= 0 then break end
  local old = redis.pcall('ZRANGEBYSCORE', settled, '-inf', string.format('%.0f', now - tonumber(ARGV[1])), 'LIMIT', 0, left)
  if old.err then
    failed, old = old.err, {}
  elseif #old == 0 then
    local over = redis.call('ZCARD', settled) - tonumber(ARGV[2])
    if over > 0 then
      old = redis.call('ZRANGEBYSCORE', settled, '-inf', string.format('%.0f', now - tonumber(ARGV[i + 3])) .. '.99', 'LIMIT', 0,
        math.min(over, left))
    end
  end
  if #old > 0 then
    redis.call('ZREM', settled, unpack(old))
    redis.call('HDEL', records, unpack(old))
    left = left - #old
  end
end
return {limit - left, failed}
