-- Schedules notices under one prefix of one shard, unless they exist there or under one of the other prefixes.
-- KEYS  1 shadow  2 records  3 dead  4 settled  then the same four of each other prefix under which these notices may be stored
-- ARGV  1 claim prefix  2 wake channel  3 "<shard> <route>"  4 "0" = set no timers (in a cluster)
--       5 the argument of handover.lua, "" = there is no history
--       6 the digests of all keys (keys.AppendDigest), 12 bytes each
--       then for each notice: key; on duplicate ("r", "k" or "p") with the due time ("+<ms>" from now or "=<unix ms>"); record's tail
-- Reply {now us, answer…}; an answer is
--       <due>                                     created
--       "<due> <made>"                            created, an older notice was replaced
--       {record, shadow, claimed, dead, settled}  exists, nothing was written; scores or "". Under another prefix, a sixth element
--                                                 is the number of that prefix, from 1
--       {tombstone}                               was finalized and trimmed earlier, nothing was written
--       or the error CLOCK <Unix s>, and nothing is written: Redis's clock is before 25 April 2020. A generation of that time could be
--       mistaken for a time in Unix ms
-- Bound the number of notices, at most 1000: the writes are collected into a few commands. If there are tombstones, one more command
--       for each of their buckets.
-- A delay starts at the next whole ms, so it is never too short. made is the generation, in µs since 2020. Two scripts are more than
-- 1 µs apart, so two notices of a key never have the same generation, even if nothing of the first one is stored.
-- A due time in the past becomes now. A notice that is due now gets no timer, because Redis deletes a key with an expiry in the past
-- without an event. The fraction .5 of its score tells the sweep to claim it without the grace.
local call, format, sub, byte = redis.call, string.format, string.sub, string.byte
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local after = now + (t[2] % 1000 > 0 and 1 or 0)
local nowtext = format('%.0f', now)
local head = call('ZRANGEBYSCORE', KEYS[1], '(' .. nowtext .. '.99', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
head = head and tonumber(head) or math.huge
local earliest, timers = math.huge, ARGV[4] ~= '0'
local reply = {t[1] * 1000000 + t[2]}
local hand = ARGV[5] ~= '' and handover(ARGV[5], KEYS[1], t)
local q, others = order(KEYS[1], t), {} -- the sequences of this prefix, and by index of the others
local names, count = {}, 0
for i = 7, #ARGV, 3 do
  count = count + 1
  names[count] = ARGV[i]
end
local kept = call('HMGET', KEYS[2], unpack(names))
local other = {} -- by key: the index in KEYS of the other prefix that stores it
for k = 5, #KEYS - 1, 4 do
  local there = call('HMGET', KEYS[k + 1], unpack(names))
  for n = 1, count do
    if there[n] and not kept[n] then kept[n], other[names[n]] = there[n], k end
  end
end
local tombs = {} -- by notice; the latest bucket holds the last generation
local index = sub(KEYS[#KEYS], 1, -7) .. 'tombstones'
if call('EXISTS', index) == 1 then
  local digests = {}
  for n = 1, count do digests[n] = sub(ARGV[6], 12 * n - 11, 12 * n) end
  for _, bucket in ipairs(call('ZRANGE', index, 0, -1)) do
    local there = call('HMGET', index .. ':' .. bucket, unpack(digests))
    for n = 1, count do tombs[n] = there[n] or tombs[n] end
  end
end
local fields, scores, size = {}, {}, 0
local written = {}
local last, text, due, begin -- of the previous notice: notices of one call often have the same due time
local birth = t[1] * 1000000 + t[2] - 1577836800000000
if birth < 10000000000000 then return redis.error_reply('CLOCK ' .. t[1]) end
local made = ',"made":' .. format('%.0f', birth)

local function flush()
  if size > 0 then
    call('HSET', KEYS[2], unpack(fields))
    call('ZADD', KEYS[1], unpack(scores))
    fields, scores, size = {}, {}, 0
  end
end

for n = 1, count do
  local i = 3 * n + 4
  local key, when = ARGV[i], ARGV[i + 1]
  local old = kept[n]
  if written[key] then -- the same key twice in one call
    flush()
    old = call('HGET', KEYS[2], key)
  end
  if old and byte(when) ~= 112 then -- "p"
    local k = other[key] or 1
    reply[n + 1] = {
      old, call('ZSCORE', KEYS[k], key) or '', call('EXISTS', ARGV[1] .. key),
      call('ZSCORE', KEYS[k + 2], key) or '', call('ZSCORE', KEYS[k + 3], key) or '', k > 1 and (k - 1) / 4 or nil}
  elseif not old and tombs[n] and byte(when) ~= 112 then
    reply[n + 1] = {tombs[n]}
  else
    if when ~= last then
      last, text = when, sub(when, 3)
      due = tonumber(text)
      if byte(when, 2) == 43 then -- "+"
        due = due > 0 and after + due or now
        text = format('%.0f', due)
      elseif due < now then
        due, text = now, nowtext
      end
      begin = '{"due":' .. text .. made
    end
    local start, answer, own = begin, due, birth
    if old then
      -- The new generation is higher than the old one, so that the two notices are never confused.
      local later = format('%.0f', math.max(birth, (tonumber(string.match(old, '"made":(%d+)')) or 0) + 1))
      own = tonumber(later)
      start = '{"due":' .. text .. ',"made":' .. later
      answer = text .. ' ' .. later
      local k, under = other[key], nil
      if q and not k then q.leave(key) end
      if k then
        if others[k] == nil then others[k] = order(KEYS[k], t) or false end
        if others[k] then others[k].leave(key) end
      end
      call('DEL', ARGV[1] .. key)
      local died = call('ZREM', KEYS[3], key)
      local ended = call('ZREM', KEYS[4], key)
      unhold(KEYS[k or 1], key, 132 / 256)
      if k then
        other[key] = nil
        call('HDEL', KEYS[k + 1], key)
        call('ZREM', KEYS[k], key)
        died, ended = call('ZREM', KEYS[k + 2], key), call('ZREM', KEYS[k + 3], key)
        under = KEYS[k]
      end
      if hand and ended == 0 then hand(died == 1 and 'R' or 'r', key, old, under) end
    end
    local score = text
    if due > now then
      if timers and redis.pcall('SET', key, '1', 'PXAT', due - 1).err then score = text .. '.5' end
    else
      score = text .. '.5'
      if old and timers then redis.pcall('DEL', key) end
    end
    fields[size + 1], fields[size + 2] = key, start .. ARGV[i + 2]
    scores[size + 1], scores[size + 2] = score, key
    size = size + 2
    written[key] = true
    if q then q.enter(key, due, own, n) end
    if due < earliest then earliest = due end
    reply[n + 1] = answer
  end
end
flush()
if hand then hand() end
if q and q.finish() then earliest = now end
for _, other in pairs(others) do
  if other then other.finish() end
end
-- Wakes the sweepers if the notice is due before all future ones, or within their look-ahead of 50 ms, which they may have read
-- already. Due notices do not count in head: they do not determine when a sweeper checks again.
if earliest < head or earliest < now + 51 then
  redis.pcall('PUBLISH', ARGV[2], format('%.0f', earliest) .. ' ' .. ARGV[3])
end
return reply
