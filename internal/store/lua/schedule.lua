-- Schedules notices of one route and shard.
-- KEYS  1 shadow  2 records  3 dead  4 settled
-- ARGV  1 claim prefix  2 wake channel  3 "<shard> <route>"  4 "1" = set timers here (not in a cluster)
--       then for each notice: key, on duplicate ("r", "k" or "p") and when ("+<ms>" from now or "=<unix ms>"), record's tail
-- Reply {now us, answer…}; an answer is
--       <due>                                     created
--       "<due>"                                   created in the place of an older one
--       {record, shadow, claimed, dead, settled}  kept already, nothing written; scores or ""
-- Bound the number of notices given, at most 1000: what is written is gathered into a few commands.
-- A due time in the past is now. A notice that is due now gets no timer, because a time in the past deletes without an
-- event; the fraction .5 of its score tells the sweep to claim it without the grace.
local call, format, sub, byte = redis.call, string.format, string.sub, string.byte
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local nowtext = format('%.0f', now)
local head = call('ZRANGEBYSCORE', KEYS[1], '(' .. nowtext .. '.99', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
head = head and tonumber(head) or math.huge
local earliest, timers = math.huge, ARGV[4] == '1'
local reply = {t[1] * 1000000 + t[2]}
local names, count = {}, 0
for i = 5, #ARGV, 3 do
  count = count + 1
  names[count] = ARGV[i]
end
local kept = call('HMGET', KEYS[2], unpack(names))
local fields, scores, size = {}, {}, 0
local written = {}
local last, text, due, begin -- of the last time: notices of one call often share it
local made = ',"made":' .. nowtext

local function flush()
  if size > 0 then
    call('HSET', KEYS[2], unpack(fields))
    call('ZADD', KEYS[1], unpack(scores))
    fields, scores, size = {}, {}, 0
  end
end

for n = 1, count do
  local i = 3 * n + 2
  local key, when = ARGV[i], ARGV[i + 1]
  local old = kept[n]
  if written[key] then -- the same key twice in one call
    flush()
    old = call('HGET', KEYS[2], key)
  end
  if old and byte(when) ~= 112 then -- "p"
    reply[n + 1] = {
      old, call('ZSCORE', KEYS[1], key) or '', call('EXISTS', ARGV[1] .. key),
      call('ZSCORE', KEYS[3], key) or '', call('ZSCORE', KEYS[4], key) or ''}
  else
    if when ~= last then
      last, text = when, sub(when, 3)
      due = tonumber(text)
      if byte(when, 2) == 43 then -- "+"
        due = now + due
        text = format('%.0f', due)
      elseif due < now then
        due, text = now, nowtext
      end
      begin = '{"due":' .. text .. made
    end
    local start = begin
    if old then
      -- A later birth than the old one's, so that nothing takes one for the other.
      local later = math.max(now, (tonumber(string.match(old, '"made":(%d+)')) or 0) + 1)
      start = '{"due":' .. text .. ',"made":' .. format('%.0f', later)
      call('DEL', ARGV[1] .. key)
      call('ZREM', KEYS[3], key)
      call('ZREM', KEYS[4], key)
    end
    local score = text
    if due > now then
      if timers then call('SET', key, '1', 'PXAT', due - 1) end
    else
      score = text .. '.5'
      if old and timers then call('DEL', key) end
    end
    fields[size + 1], fields[size + 2] = key, start .. ARGV[i + 2]
    scores[size + 1], scores[size + 2] = score, key
    size = size + 2
    written[key] = true
    if due < earliest then earliest = due end
    reply[n + 1] = old and text or due
  end
end
flush()
-- Earlier than what is to come next (what is due already tells nothing of when they look again), or within the few ms
-- that reconcilers have looked ahead.
if earliest < head or earliest < now + 6 then
  call('PUBLISH', ARGV[2], format('%.0f', earliest) .. ' ' .. ARGV[3])
end
return reply
