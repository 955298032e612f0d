-- Looks at what is due, and what will be, of one route and shard.
-- KEYS  1 shadow
-- ARGV  1 grace ms  2 look ahead ms  3 at most so many keys
-- Reply {now us, overdue, key, score…}: overdue counts what fell due longer than the grace ago, or has no timer; then
--       what fell due since and what is to come within the look ahead, in order. If there is none of these, the next
--       key after them, if any.
-- Bound ARGV[3] keys.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local ripe = string.format('%.0f', now - tonumber(ARGV[1])) .. '.99'
local overdue = redis.call('ZCOUNT', KEYS[1], '-inf', ripe)
local near = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ripe, string.format('%.0f', now + tonumber(ARGV[2])),
  'WITHSCORES', 'LIMIT', 0, ARGV[3])
if #near == 0 then
  near = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ripe, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
end
return {t[1] * 1000000 + t[2], overdue, unpack(near)}
