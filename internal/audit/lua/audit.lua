-- Adds an entry to the audit stream of a client and class, or counts the call in an entry of the same call.
-- KEYS  1 the stream  2 its repeats  3 clients  4 last
-- ARGV  1 the client  2 the most entries of a stream  3 for so many ms the same call is one entry  4… the names and values of
--       the entry's fields
-- Reply {id, how many calls of this entry were made since its first}
-- Bound 200 entries, and 1 if the stream was never above its most.
local function same(fields)
  local failed = false
  for i = 1, #fields, 2 do failed = failed or fields[i] == 'result' and fields[i + 1] == 'failed' end
  local parts = {}
  for i = 1, #fields, 2 do
    -- The detail of a failed call is the text of an error, which may differ from call to call.
    if fields[i] ~= 'count' and not (failed and fields[i] == 'detail') then
      parts[#parts + 1] = fields[i] .. '\0' .. fields[i + 1]
    end
  end
  table.sort(parts) -- a copy may have the fields in another order
  return redis.sha1hex(table.concat(parts, '\0'))
end
local function split(id)
  local ms, n = string.match(id or '', '^(%d+)-(%d+)$')
  return tonumber(ms) or 0, tonumber(n) or 0
end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local fields = {}
for i = 4, #ARGV do fields[#fields + 1] = ARGV[i] end
local sum = same(fields)
local id = redis.call('HGET', KEYS[2], sum)
if id and math.abs(now - split(id)) < tonumber(ARGV[3]) then
  return {id, redis.call('HINCRBY', KEYS[2], id, 1)}
end
-- Ids rise over all streams, also where the clock was set back, so that the newest entry is always first.
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
local ms, n = now, 0
for _, other in ipairs({redis.call('GET', KEYS[4]) or '', newest[1] and newest[1][1] or ''}) do
  local oms, on = split(other)
  if oms > ms or oms == ms and on >= n then ms, n = oms, on + 1 end
end
id = string.format('%.0f-%.0f', ms, n)
local most = tonumber(ARGV[2])
local over = math.min(redis.call('XLEN', KEYS[1]) + 1 - most, 200)
local old = {}
if over > 0 then old = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', over) end
redis.call('XADD', KEYS[1], 'MAXLEN', most, id, unpack(fields))
for _, e in ipairs(old) do
  redis.call('HDEL', KEYS[2], e[1])
  local was = same(e[2])
  if redis.call('HGET', KEYS[2], was) == e[1] then redis.call('HDEL', KEYS[2], was) end
end
redis.call('HSET', KEYS[2], sum, id)
redis.call('SET', KEYS[4], id)
redis.call('ZADD', KEYS[3], string.format('%.0f', now), ARGV[1])
return {id, 0}
