-- Reads the due and coming notices of some routes of one shard. Outside a cluster the routes may be of several shards.
-- KEYS  the shadow of each route
-- ARGV  1 maximum number of keys in all; then for each shadow: grace in ms, look-ahead in ms, maximum number of keys,
--       "1" = read also which notice expires first, "1" = read also the first definition in recurring.lua
-- Reply {now us, answer…}, for each shadow {overdue, more, expires, tick, key, score…}, or the error text of a shadow that
--       cannot be read. overdue counts the notices due for longer than the grace. The keys are, in order, the other due notices
--       and those due within the look-ahead. more is 1 if there may be more of them after the last key, 2 if there may be more
--       due ones. If none of the keys is in the future, the next future key is added, if there is one: a caller that waits for
--       the claim of due notices must not sleep past it. If more is 2, up to 63 others within the look-ahead follow. expires is
--       the first time in expiring.lua, tick that in recurring.lua, "" = there is none, or it was not asked for
-- Bound 64 shadows; ARGV[1] keys in all, then 80 for each shadow.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local left = tonumber(ARGV[1])
local reply = {t[1] * 1000000 + t[2]}
for i = 1, #KEYS do
  local grace, ahead, most = ARGV[5 * i - 3], ARGV[5 * i - 2], tonumber(ARGV[5 * i - 1])
  most = math.min(most, math.max(left, 16))
  local ripe = string.format('%.0f', now - grace) .. '.99'
  local overdue = redis.pcall('ZCOUNT', KEYS[i], '-inf', ripe)
  if type(overdue) == 'table' then
    reply[i + 1] = overdue.err
  else
    local near = redis.call('ZRANGEBYSCORE', KEYS[i], '(' .. ripe, string.format('%.0f', now + ahead), 'WITHSCORES', 'LIMIT', 0, most)
    local n = #near
    left = left - n / 2
    local more = n >= 2 * most and 1 or 0
    if n == 0 or math.floor(tonumber(near[n])) <= now then
      local next = redis.call('ZRANGEBYSCORE', KEYS[i], string.format('(%.0f.99', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1 + 63 * more)
      for j = 1, #next, 2 do
        if j == 1 or tonumber(next[j + 1]) <= now + ahead then near[n + j], near[n + j + 1] = next[j], next[j + 1] end
      end
      more = 2 * more
    end
    local expires, tick
    if ARGV[5 * i] == '1' then
      local expiring = string.gsub(KEYS[i], '}:shadow:', '}:expiring:', 1)
      expires = redis.call('ZRANGE', expiring, 0, 0, 'WITHSCORES')[2]
    end
    if ARGV[5 * i + 1] == '1' then
      local ticks = string.gsub(KEYS[i], '}:shadow:', '}:ticks:', 1)
      tick = redis.call('ZRANGE', ticks, 0, 0, 'WITHSCORES')[2]
    end
    reply[i + 1] = {overdue, more, expires or '', tick or '', unpack(near)}
  end
end
return reply
