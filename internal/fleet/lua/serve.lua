-- Records the prefixes that an instance has routes for, and returns those of all instances.
-- KEYS  1 serving  2 handled
-- ARGV  1 instance  2 remove entries older than so many ms  3… prefixes, those of a worker's handlers with =worker
-- Reply members: "<prefix> <instance>"
-- Bound the prefixes given, and those of all alive instances.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
for i = 3, #ARGV do
  if string.sub(ARGV[i], -7) == '=worker' then
    redis.call('HSET', KEYS[2], string.sub(ARGV[i], 1, -8), string.format('%.0f', now))
  end
end
for first = 3, #ARGV, 1000 do
  local add = {}
  for i = first, math.min(first + 999, #ARGV) do
    add[#add + 1] = string.format('%.0f', now)
    add[#add + 1] = ARGV[i] .. ' ' .. ARGV[1]
  end
  redis.call('ZADD', KEYS[1], unpack(add))
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - tonumber(ARGV[2])))
return redis.call('ZRANGE', KEYS[1], 0, -1)
