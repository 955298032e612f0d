-- Opens a session of the pages, of a client or of a link.
-- KEYS  1 the sessions of the client or link  2 only of a link: the link
-- ARGV  1 the session  2 for so many ms  3 the most sessions
-- Reply {1}; {0, ms until a session ends}, where the link has as many as it may; {-1}, where the link is not good
-- Bound the sessions that have ended, at most as many as there may be.
-- A client that has as many as it may loses the session that would end first.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local ends, most = now + ARGV[2], tonumber(ARGV[3])
if KEYS[2] and (redis.call('GET', KEYS[2]) or '') == '' then return {-1} end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
local over = redis.call('ZCARD', KEYS[1]) + 1 - most
if over > 0 then
  if KEYS[2] then
    return {0, redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] - now}
  end
  redis.call('ZPOPMIN', KEYS[1], over)
end
redis.call('ZADD', KEYS[1], string.format('%.0f', ends), ARGV[1])
redis.call('PEXPIREAT', KEYS[1], redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2])
return {1}
