-- Looks at what is due, and what will be, of one route and shard.
-- KEYS  1 shadow
-- ARGV  1 grace ms  2 look ahead ms  3 at most so many keys
-- Reply {now us, overdue, key, score…}: overdue counts what fell due longer than the grace ago, or has no timer; then
--       what fell due since and what is to come within the look ahead, in order. If none of these is to come, the next
--       key that is, if any: who waits for the claim of what is due must not sleep past it.
-- Bound ARGV[3] keys, and one.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local ripe = string.format('%.0f', now - tonumber(ARGV[1])) .. '.99'
local overdue = redis.call('ZCOUNT', KEYS[1], '-inf', ripe)
local near = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ripe, string.format('%.0f', now + tonumber(ARGV[2])),
  'WITHSCORES', 'LIMIT', 0, ARGV[3])
if #near < 2 * tonumber(ARGV[3]) and (#near == 0 or math.floor(tonumber(near[#near])) <= now) then
  local next = redis.call('ZRANGEBYSCORE', KEYS[1], string.format('(%.0f.99', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  near[#near + 1], near[#near + 2] = next[1], next[2]
end
return {t[1] * 1000000 + t[2], overdue, unpack(near)}
