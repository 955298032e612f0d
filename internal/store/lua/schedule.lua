-- Schedules notices of one route and shard.
-- KEYS  1 shadow  2 records  3 dead  4 settled
-- ARGV  1 claim prefix  2 wake channel  3 "<shard> <route>"  4 "1" = set timers here (not in a cluster)
--       then for each notice: key, when ("+<ms>" from now or "=<unix ms>"), on duplicate ("r", "k" or "p"), record's tail
-- Reply {now us, answer…}; an answer is
--       <due>                                     created
--       "<due>"                                   created in the place of an older one
--       {record, shadow, claimed, dead, settled}  kept already, nothing written; scores or ""
-- Bound the number of notices given, at most 1000: what is written is gathered into a few commands.
-- A due time in the past is now. A notice that is due now gets no timer, because a time in the past deletes without an
-- event; the fraction .5 of its score tells the sweep to claim it without the grace.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local nowtext = string.format('%.0f', now)
local head = redis.call('ZRANGEBYSCORE', KEYS[1], string.format('(%.0f.99', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
head = head and tonumber(head) or math.huge
local earliest, timers = math.huge, ARGV[4] == '1'
local reply = {t[1] * 1000000 + t[2]}
local names = {}
for i = 5, #ARGV, 4 do names[#names + 1] = ARGV[i] end
local kept = redis.call('HMGET', KEYS[2], unpack(names))
local fields, scores, written = {}, {}, {}
local last, text, expire, begin -- of the last due time: notices of one call often share it

local function flush()
  if #fields > 0 then
    redis.call('HSET', KEYS[2], unpack(fields))
    redis.call('ZADD', KEYS[1], unpack(scores))
    fields, scores = {}, {}
  end
end

for n = 1, #names do
  local i = 4 * n + 1
  local key, when, mode, tail = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local old = kept[n]
  if written[key] then -- the same key twice in one call
    flush()
    old = redis.call('HGET', KEYS[2], key)
  end
  if old and mode ~= 'p' then
    reply[#reply + 1] = {
      old, redis.call('ZSCORE', KEYS[1], key) or '', redis.call('EXISTS', ARGV[1] .. key),
      redis.call('ZSCORE', KEYS[3], key) or '', redis.call('ZSCORE', KEYS[4], key) or ''}
  else
    local due = tonumber(string.sub(when, 2))
    if string.byte(when) == 43 then due = now + due end
    if due < now then due = now end
    if due ~= last then
      last, text = due, string.format('%.0f', due)
      expire = string.format('%.0f', due - 1)
      begin = '{"due":' .. text .. ',"made":' .. nowtext
    end
    local start = begin
    if old then
      -- A later birth than the old one's, so that nothing takes one for the other.
      local made = math.max(now, (tonumber(string.match(old, '"made":(%d+)')) or 0) + 1)
      start = '{"due":' .. text .. ',"made":' .. string.format('%.0f', made)
      redis.call('DEL', ARGV[1] .. key)
      redis.call('ZREM', KEYS[3], key)
      redis.call('ZREM', KEYS[4], key)
    end
    fields[#fields + 1] = key
    fields[#fields + 1] = start .. tail
    if due > now then
      scores[#scores + 1] = text
      if timers then redis.call('SET', key, '1', 'PXAT', expire) end
    else
      scores[#scores + 1] = text .. '.5'
      if old and timers then redis.call('DEL', key) end
    end
    scores[#scores + 1] = key
    written[key] = true
    if due < earliest then earliest = due end
    reply[#reply + 1] = old and text or due
  end
end
flush()
-- Earlier than what is to come next (what is due already tells nothing of when they look again), or within the few ms
-- that reconcilers have looked ahead.
if earliest < head or earliest < now + 6 then
  redis.call('PUBLISH', ARGV[2], string.format('%.0f', earliest) .. ' ' .. ARGV[3])
end
return reply
