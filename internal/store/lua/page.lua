-- Reads a page of one zset of a route and shard, in order of score, then key.
-- KEYS  1 the zset (shadow, dead or settled)  2 records
-- ARGV  1 claim prefix  2 lowest score  3 highest score  4 score and  5 key of the cursor ("" = start at the lowest score)
--       6 maximum number of entries to read  7 maximum number to return  8 start of the keys, or ""
--       9 "1": only claimed notices, "0": only unclaimed ones, "": both  10 only this fraction of the score ("0" or "0.5"; "" = any)
--       11 only records with this text (a reason in JSON notation; "" = any)
--       12 only records with this text in any case (a host in lower case; "" = any)
--       13 only keys with this text ("" = any)
--       14 maximum bytes of records, matching or not
-- Reply {last score, last key, more, read, key, score, claimed, record…}; more is 1 if entries follow the last one, read is the number
--       of entries read
-- Bound ARGV[6] entries; ARGV[14] bytes, exceeded by at most one record.
local zset, records = KEYS[1], KEYS[2]
local first = redis.call('ZCOUNT', zset, '-inf', '(' .. ARGV[2])
if ARGV[5] ~= '' then
  local s = redis.call('ZSCORE', zset, ARGV[5])
  if s and tonumber(s) == tonumber(ARGV[4]) then
    first = redis.call('ZRANK', zset, ARGV[5]) + 1
  else
    -- The cursor's entry is no longer in the zset. Keys of one score are sorted, so a binary search finds its position.
    local lo = redis.call('ZCOUNT', zset, '-inf', '(' .. ARGV[4])
    local hi = redis.call('ZCOUNT', zset, '-inf', ARGV[4])
    while lo < hi do
      local mid = math.floor((lo + hi) / 2)
      if redis.call('ZRANGE', zset, mid, mid)[1] <= ARGV[5] then lo = mid + 1 else hi = mid end
    end
    first = lo
  end
end
local look, want, bytes = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[14])
local found = redis.call('ZRANGE', zset, first, first + look - 1, 'WITHSCORES')
local top = tonumber(ARGV[3]) or math.huge
local reply = {'', '', #found == 2 * look and 1 or 0, 0}
local n = 0
for i = 1, #found, 2 do
  local key, score = found[i], found[i + 1]
  if tonumber(score) > top then
    reply[3] = 0
    break
  end
  if n >= want or bytes <= 0 then
    reply[3] = 1
    break
  end
  reply[1], reply[2], reply[4] = score, key, reply[4] + 1
  local fits = ARGV[8] == '' or string.sub(key, 1, #ARGV[8]) == ARGV[8]
  if fits and ARGV[13] ~= '' then fits = string.find(key, ARGV[13], 1, true) end
  if fits and ARGV[10] ~= '' then fits = tonumber(score) % 1 == tonumber(ARGV[10]) end
  if fits then
    local claimed = redis.call('EXISTS', ARGV[1] .. key)
    if ARGV[9] == '' or tostring(claimed) == ARGV[9] then
      local record = redis.call('HGET', records, key) or ''
      bytes = bytes - #record
      if (ARGV[11] == '' or string.find(record, ARGV[11], 1, true)) and
        (ARGV[12] == '' or string.find(string.lower(record), ARGV[12], 1, true)) then
        n = n + 1
        for _, v in ipairs({key, score, claimed, record}) do reply[#reply + 1] = v end
      end
    end
  end
end
return reply
