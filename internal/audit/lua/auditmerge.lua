-- Merges an audit stream into another one by time, and deletes it.
-- KEYS  1 the stream  2 its repeats  3 the stream to merge it into  4 the repeats of that  5 last  6 clients  7 the other stream
--       of the client
-- ARGV  1 the most entries of a stream  2 the client to take out of clients if it has no stream any more; '' = none
-- Reply {how many entries both streams had}
-- Bound both streams.
-- An entry of both, by time and content, stays once: a copy that was broken off is made again.
local function split(id)
  local ms, n = string.match(id or '', '^(%d+)-(%d+)$')
  return tonumber(ms) or 0, tonumber(n) or 0
end
local all, had = {}, {}
local function read(stream, repeats)
  for _, e in ipairs(redis.call('XRANGE', stream, '-', '+')) do
    local count, fields, parts = 1, {}, {}
    for i = 1, #e[2], 2 do
      if e[2][i] == 'count' then
        count = tonumber(e[2][i + 1]) or 1
      else
        fields[#fields + 1], fields[#fields + 2] = e[2][i], e[2][i + 1]
        parts[#parts + 1] = e[2][i] .. '\0' .. e[2][i + 1]
      end
    end
    count = count + (tonumber(redis.call('HGET', repeats, e[1])) or 0)
    local ms, n = split(e[1])
    table.sort(parts) -- a copy may have the fields in another order
    local sum = string.format('%.0f', ms) .. '\0' .. table.concat(parts, '\0')
    if had[sum] then
      had[sum].count = math.max(had[sum].count, count)
    else
      had[sum] = {ms = ms, n = n, at = #all, count = count, fields = fields}
      all[#all + 1] = had[sum]
    end
  end
end
if redis.call('EXISTS', KEYS[1]) == 1 then
  read(KEYS[3], KEYS[4])
  read(KEYS[1], KEYS[2])
  table.sort(all, function(a, b)
    if a.ms ~= b.ms then return a.ms < b.ms end
    if a.n ~= b.n then return a.n < b.n end
    return a.at < b.at
  end)
  redis.call('DEL', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
  local ms, n = 0, 0
  for i = math.max(#all - tonumber(ARGV[1]), 0) + 1, #all do
    local e = all[i]
    if e.ms > ms then ms, n = e.ms, e.n else n = math.max(e.n, n + 1) end
    if e.count > 1 then
      e.fields[#e.fields + 1], e.fields[#e.fields + 2] = 'count', string.format('%.0f', e.count)
    end
    redis.call('XADD', KEYS[3], string.format('%.0f-%.0f', ms, n), unpack(e.fields))
  end
  local lms, ln = split(redis.call('GET', KEYS[5]))
  if ms > lms or ms == lms and n > ln then redis.call('SET', KEYS[5], string.format('%.0f-%.0f', ms, n)) end
end
if ARGV[2] ~= '' and redis.call('EXISTS', KEYS[7]) == 0 then redis.call('ZREM', KEYS[6], ARGV[2]) end
return {#all}
