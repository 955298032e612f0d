-- Counts what one route and shard hold.
-- KEYS  1 shadow  2 dead  3 settled  4 trimmed
-- ARGV  1 look at so many entries for the next due  2 prefix
-- Reply {pending, overdue, dead, settled, next due ms or "", repeat ms}: overdue is due and claimed by nobody; next due is the earliest due
--       time in the shadow, "" if there is none among the entries looked at; repeat is how long ago the newest notice was settled
--       that nothing recognises any more because it was trimmed for being too many (trim.lua), -1 = there is none
-- Bound ARGV[1] entries.
-- The fraction of a score tells a due time from the end of a lease. How many leases there are is not counted: they lie among
-- the due times, so that each notice due before the last of them would have to be looked at.
local t = redis.call('TIME')
local ms = t[1] * 1000 + math.floor(t[2] / 1000)
local now = string.format('%.0f', ms)
local first = redis.call('ZRANGE', KEYS[1], 0, tonumber(ARGV[1]) - 1, 'WITHSCORES')
local due = ''
for i = 2, #first, 2 do
  local fraction = tonumber(first[i]) % 1
  if fraction == 0 or fraction >= 500 / 1024 then
    due = string.match(first[i], '^%d+')
    break
  end
end
local trimmed = redis.call('HMGET', KEYS[4], ARGV[2], '')
local missed = trimmed[1] and trimmed[2] and ms - math.min(tonumber(trimmed[1]), tonumber(trimmed[2])) or -1
return {redis.call('ZCARD', KEYS[1]), redis.call('ZCOUNT', KEYS[1], '-inf', now .. '.99'), redis.call('ZCARD', KEYS[2]),
  redis.call('ZCARD', KEYS[3]), due, missed}
