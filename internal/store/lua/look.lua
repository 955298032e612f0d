-- Looks at what is due, and what will be, of some routes of one shard; outside a cluster they may be of several shards.
-- KEYS  the shadow of each
-- ARGV  1 keys in all; then for each shadow: grace ms, look ahead ms, at most so many keys
-- Reply {now us, one for each shadow}, each {overdue, 1 if there may be more, key, score…}, or the error text of a key that
--       cannot be read. Overdue counts what fell due longer than the grace ago, or has no timer; then what fell due
--       since and what is to come within the look ahead, in order. If none of these is to come, the next key that is,
--       if any: who waits for the claim of what is due must not sleep past it.
-- Bound 64 shadows; ARGV[1] keys in all, and 16 for each shadow when those are used up.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local left = tonumber(ARGV[1])
local reply = {t[1] * 1000000 + t[2]}
for i = 1, #KEYS do
  local grace, ahead, most = ARGV[3 * i - 1], ARGV[3 * i], tonumber(ARGV[3 * i + 1])
  most = math.min(most, math.max(left, 16))
  local ripe = string.format('%.0f', now - grace) .. '.99'
  local overdue = redis.pcall('ZCOUNT', KEYS[i], '-inf', ripe)
  if type(overdue) == 'table' then
    reply[i + 1] = overdue.err
  else
    local near = redis.call('ZRANGEBYSCORE', KEYS[i], '(' .. ripe, string.format('%.0f', now + ahead), 'WITHSCORES', 'LIMIT', 0, most)
    local n = #near
    left = left - n / 2
    if n < 2 * most and (n == 0 or math.floor(tonumber(near[n])) <= now) then
      local next = redis.call('ZRANGEBYSCORE', KEYS[i], string.format('(%.0f.99', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
      near[n + 1], near[n + 2] = next[1], next[2]
    end
    reply[i + 1] = {overdue, n >= 2 * most and 1 or 0, unpack(near)}
  end
end
return reply
