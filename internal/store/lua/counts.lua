-- Counts the notices of one route and shard.
-- KEYS  1 shadow  2 dead  3 settled  4 trimmed  5 waiting, if the route is ordered
-- ARGV  1 maximum number of entries read to find the next due time  2 prefix  3… lengths of time in ms, the longest last
-- Reply {pending, overdue, dead, settled, next, repeat, parked, waited, due…}
--       overdue: due notices without a valid claim
--       next: the earliest due time in ms in the shadow, without those of claimed and parked notices; "" if none was found
--       repeat: how many ms ago the newest notice was settled that was trimmed because of the number (trim.lua) and has no tombstone any
--         more; -1 = none
--       parked, waited: the parked notices, and for how many ms the first of them has waited; 0 without KEYS[5]
--       due…: the notices that become due in each of the lengths of time, without the claimed and parked ones among the first ARGV[1]
--         entries
-- PARTS score leases
-- Bound ARGV[1] entries.
-- The fraction of a score distinguishes a due time from the end of a lease. Leases are not counted: they are sorted among the due
-- times, so each notice that is due before the last lease ends would have to be read. The score of a parked notice is no due time.
local t = redis.call('TIME')
local ms = t[1] * 1000 + math.floor(t[2] / 1000)
local now = string.format('%.0f', ms)
local first = redis.call('ZRANGE', KEYS[1], 0, tonumber(ARGV[1]) - 1, 'WITHSCORES')
local due, comes = '', {}
for w = 3, #ARGV do
  comes[w - 2] = redis.call('ZCOUNT', KEYS[1], '(' .. now .. '.99', string.format('%.0f', ms + ARGV[w]) .. '.99')
end
local last = ms + ARGV[#ARGV] + 1
for i = 2, #first, 2 do
  local score = tonumber(first[i])
  if score == math.floor(score) or leases(score) == 0 and not (KEYS[5] and redis.call('ZSCORE', KEYS[5], first[i - 1])) then
    if due == '' then due = string.match(first[i], '^%d+') end
  elseif score >= ms + 1 then
    for w = 3, #ARGV do
      if score < ms + ARGV[w] + 1 then comes[w - 2] = comes[w - 2] - 1 end
    end
  end
  if due ~= '' and score >= last then break end
end
local trimmed = redis.call('HMGET', KEYS[4], ARGV[2], '')
local missed = trimmed[1] and trimmed[2] and ms - math.min(tonumber(trimmed[1]), tonumber(trimmed[2])) or -1
local parked, oldest = 0, nil
if KEYS[5] then
  parked = redis.call('ZCARD', KEYS[5])
  oldest = redis.call('ZRANGE', KEYS[5], 0, 0, 'WITHSCORES')[2]
end
return {redis.call('ZCARD', KEYS[1]), redis.call('ZCOUNT', KEYS[1], '-inf', now .. '.99'), redis.call('ZCARD', KEYS[2]),
  redis.call('ZCARD', KEYS[3]), due, missed, parked, oldest and math.max(ms - tonumber(oldest), 0) or 0, unpack(comes)}
