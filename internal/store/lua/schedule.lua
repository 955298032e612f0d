-- Schedules notices under one prefix of one shard, unless they exist there or under one of the other prefixes.
-- KEYS  1 shadow  2 records  3 dead  4 settled  then the same four of each other prefix under which these notices may be stored
-- ARGV  1 claim prefix  2 wake channel  3 "<shard> <route>"  4 mode of timers
--       5 the argument of handover.lua, "" = there is no history
--       6 the digests of all keys (keys.AppendDigest), 12 bytes each
--       7 the ids of the data keys of sealed records, separated by blanks, "" = none is sealed
--       then for each notice: key; on duplicate ("r", "k" or "p") with the due time ("+<ms>" from now or "=<unix ms>") and, of one
--       that expires, " +<ms>" after the due time or " =<unix ms>"; record's tail
-- Reply {now us, answer…}; an answer is
--       <due>                                     created
--       "<due> <made> <score>"                    created, an older notice was replaced; its score in the shadow, "-" = not pending
--       {record, shadow, claimed, dead, settled}  exists, nothing was written; scores or "". Under another prefix, a sixth element
--                                                 is the number of that prefix, from 1
--       -1                                        would expire before it is due, nothing was written
--       {tombstone}                               was finalized and trimmed earlier, nothing was written
--       or the errors CLOCK <Unix s> of lib/epoch.lua, and NODATAKEY: the shard does not have one of these keys, nothing was written
--       The last element is {"foreign", n} if n keys with the names of notices are not the service's: see lib/timer.lua
-- PARTS datakeys score order order/marks order/places order/finish handover clock generation replace replace/held replace/record
-- PARTS replace/successor replace/ends epoch timer wake
-- Bound the number of notices, at most 1000: the writes are collected into a few commands, and one for each data key. If there are
--       tombstones, one more command for each of their buckets.
-- A due time in the past becomes now. A notice that is due now gets no timer, because Redis deletes a key with an expiry in the past
-- without an event. The fraction .5 of its score tells the sweep to claim it without the grace.
local call, format, sub, byte = redis.call, string.format, string.sub, string.byte
local nowtext = format('%.0f', now)
local lost = ARGV[7] ~= '' and nodatakey(KEYS[1], ARGV[7])
if lost then return lost end
local earliest = math.huge
local reply = {t[1] * 1000000 + t[2]}
local hand = ARGV[5] ~= '' and handover(ARGV[5], KEYS[1], t)
local q, others = order(KEYS[1], t), {} -- the sequences of this prefix, and by index of the others
local names, count = {}, 0
for i = 8, #ARGV, 3 do
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
local till, watched, soonest -- when the previous notice expires, or nil; the scores and keys of those that do; the first of them
local expiring
local last, text, due, begin -- of the previous notice: notices of one call often have the same due time
local stamp = ',"made":' .. format('%.0f', birth)

local function flush()
  if size > 0 then
    call('HSET', KEYS[2], unpack(fields))
    call('ZADD', KEYS[1], unpack(scores))
    fields, scores, size = {}, {}, 0
  end
  if watched then -- as in expiring.lua
    call('ZADD', expiring, unpack(watched))
    watched = nil
  end
end

for n = 1, count do
  local i = 3 * n + 5
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
      due, till = tonumber(text), nil
      if not due then
        due, till = string.match(text, '^(%d+) (.+)$')
        due, text = tonumber(due), due
      end
      if byte(when, 2) == 43 then -- "+"
        due = due > 0 and after + due or now
        text = format('%.0f', due)
      elseif due < now then
        due, text = now, nowtext
      end
      begin = '{"due":' .. text .. stamp
      if till then till = tonumber(sub(till, 2)) + (byte(till) == 43 and due or 0) end
    end
    local start, answer, own, was = begin, due, birth, nil
    if till and till <= due then
      answer = -1
    elseif old then
      local k = other[key] or 1
      local sequences = q
      if k > 1 then
        if others[k] == nil then others[k] = order(KEYS[k], t) or false end
        sequences, other[key] = others[k], nil
      end
      -- The new generation is higher than the old one, so that the two notices are never confused.
      was, own = replace(KEYS, k, ARGV[1], key, old, sequences, hand)
      local later = format('%.0f', own)
      start = '{"due":' .. text .. ',"made":' .. later
      answer = text .. ' ' .. later .. ' ' .. (was or '-')
    end
    if answer ~= -1 then
      local score = arm(ARGV[4], key, due, '1', was, true) and text or text .. '.5'
      if till then
        watched, expiring = watched or {}, string.gsub(KEYS[1], '}:shadow:', '}:expiring:', 1)
        watched[#watched + 1], watched[#watched + 2] = format('%.0f', till), key
        soonest = math.min(soonest or till, till)
        start = start .. ',"expires":' .. format('%.0f', till)
      end
      fields[size + 1], fields[size + 2] = key, start .. ARGV[i + 2]
      scores[size + 1], scores[size + 2] = score, key
      size = size + 2
      written[key] = true
      if q then q.enter(key, due, own, n) end
      if due < earliest then earliest = due end
    end
    reply[n + 1] = answer
  end
end
flush()
if hand then hand() end
if q and q.finish() then earliest = now end
for k, other in pairs(others) do
  if other and other.finish() then wake(now, KEYS[k], ARGV[2], ARGV[3]) end
end
wake(earliest, KEYS[1], ARGV[2], ARGV[3], written)
if soonest then
  local first = call('ZRANGE', expiring, 0, 0, 'WITHSCORES')[2]
  if tonumber(first) >= soonest then redis.pcall('PUBLISH', ARGV[2], 'expires ' .. first .. ' ' .. ARGV[3]) end
end
if foreign > 0 then reply[count + 2] = {'foreign', foreign} end
return reply
