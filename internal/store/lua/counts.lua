-- Counts what one route and shard hold.
-- KEYS  1 shadow  2 dead  3 settled
-- ARGV  1 look at so many entries for the next due
-- Reply {pending, overdue, dead, settled, next due ms or ""}: overdue is due and claimed by nobody; next due is the earliest due
--       time in the shadow, "" if there is none among the entries looked at
-- Bound ARGV[1] entries.
-- The fraction of a score tells a due time from the end of a lease. How many leases there are is not counted: they lie among
-- the due times, so that each notice due before the last of them would have to be looked at.
local t = redis.call('TIME')
local now = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
local first = redis.call('ZRANGE', KEYS[1], 0, tonumber(ARGV[1]) - 1, 'WITHSCORES')
local due = ''
for i = 2, #first, 2 do
  local fraction = tonumber(first[i]) % 1
  if fraction == 0 or fraction >= 500 / 1024 then
    due = string.match(first[i], '^%d+')
    break
  end
end
return {redis.call('ZCARD', KEYS[1]), redis.call('ZCOUNT', KEYS[1], '-inf', now .. '.99'), redis.call('ZCARD', KEYS[2]),
  redis.call('ZCARD', KEYS[3]), due}
