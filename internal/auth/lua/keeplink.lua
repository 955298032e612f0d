-- Stores a link to the pages.
-- KEYS  1 the link  2 the client's links by the time they end
-- ARGV  1 the link's id  2 its text  3 for so many ms  4 the most links of the client; "0" = a copy of a link, stored in addition to
--       those, unless the link is stored already
-- Reply {1} = stored; {0} = the client has as many as it may, or the link is stored already
-- Bound 1,000 links that have ended.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local at, most = string.format('%.0f', now), tonumber(ARGV[4])
local over = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', at, 'LIMIT', 0, 1000)
if #over > 0 then redis.call('ZREM', KEYS[2], unpack(over)) end
if most > 0 and redis.call('ZCOUNT', KEYS[2], '(' .. at, '+inf') >= most then return {0} end
if most == 0 and redis.call('EXISTS', KEYS[1]) == 1 then return {0} end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
redis.call('ZADD', KEYS[2], string.format('%.0f', now + ARGV[3]), ARGV[1])
redis.call('PEXPIREAT', KEYS[2], redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2])
return {1}
