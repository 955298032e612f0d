-- Finalizes a pending, claimed or dead notice outside an attempt; needs clock, ends and expiring. KEYS 1 to 4, ARGV 1 and 5 are those of
-- amend.lua.
--   finalize(q, key, record, fraction)  q is that of order.lua; fraction is "" of a delivered and ".5" of a cancelled notice: see
--     cancelled.lua
-- Bound a few commands.
local function finalize(q, key, record, fraction)
  if ends(record) then watch(KEYS[1], key, nil) end
  redis.call('ZREM', KEYS[1], key)
  redis.call('ZREM', KEYS[3], key)
  if q then q.leave(key) end
  redis.call('DEL', ARGV[1] .. key)
  if ARGV[5] == '1' then
    redis.call('ZADD', KEYS[4], string.format('%.0f', now) .. fraction, key)
  else
    redis.call('HDEL', KEYS[2], key)
  end
end
