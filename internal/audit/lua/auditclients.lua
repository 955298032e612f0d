-- Notes which clients are in a configuration, and finds those that no instance has had in its own for long.
-- KEYS  1 clients
-- ARGV  1 for how many ms  2… the clients
-- Reply the clients that were found
-- Bound the clients of the configuration, and 100 that were found.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
for i = 2, #ARGV do redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[i]) end
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - ARGV[1]), 'LIMIT', 0, 100)
