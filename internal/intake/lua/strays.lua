-- Finds pending notices of one route and shard whose timers do not match the shadow: deleted or persistent, and for those due soon
-- also moved. A scan of the timers finds all moved ones.
-- KEYS  1 shadow
-- ARGV  1 "a" = of all notices, 2 = cursor ("0" at first);  "d" = of those due soon, 2 = within so many ms  3 maximum number
-- Reply {now us, next, key…}: next is the next cursor, "0" = no more; for "d" the score of the first notice due later, "" = none
-- PARTS score leases
-- Bound ARGV[3] entries; a small shadow is read as a whole, at most 128 entries.
-- Only notices scheduled with a timer are checked (see package store). The event of a moved timer may still arrive, so the caller
-- checks each result again, together with its notice. Not for a cluster.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local list, next
if ARGV[1] == 'a' then
  local found = redis.call('ZSCAN', KEYS[1], ARGV[2], 'COUNT', ARGV[3])
  next, list = found[1], found[2]
else
  local to = string.format('%.0f', now + tonumber(ARGV[2]))
  list = redis.call('ZRANGEBYSCORE', KEYS[1], string.format('(%.0f.99', now), to, 'WITHSCORES', 'LIMIT', 0, ARGV[3])
  next = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. to, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2] or ''
end
local reply = {t[1] * 1000000 + t[2], next}
for i = 1, #list, 2 do
  local score = tonumber(list[i + 1])
  if score > now and timed(score) then
    local left = redis.call('PTTL', list[i])
    if left < 0 or ARGV[1] == 'd' and math.abs(now + left + 1 - score) > 2 then reply[#reply + 1] = list[i] end
  end
end
return reply
