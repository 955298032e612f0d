-- Reads plain timers of one route and shard with their notices, and skips those that need no operation.
-- KEYS  1 shadow  2 records  3 dead  4 settled
-- ARGV  1 claim prefix  2 longest payload  3 maximum bytes of payloads and records, then the keys
-- Reply {now us, checked, {key, value, length, expire, {record, shadow, claimed, dead, settled}}…}
--       checked    the number of keys checked; the caller passes the others again
--       value      "" if it is longer than ARGV[2] or missing
--       length     of the value; -1 = the key does not exist, -2 = it is not a string
--       expire     Unix ms; -1 = it never expires
-- Bound the keys given, and ARGV[3] bytes (at least one key).
-- A key needs no operation if its expiry matches the shadow, and its value is the notice's body or the number of the next attempt.
-- The caller decides where a comparison of texts is not enough.
-- PARTS stamps
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local bytes = tonumber(ARGV[3])
local reply = {t[1] * 1000000 + t[2], 0}
for i = 4, #ARGV do
  if bytes <= 0 then break end
  local key = ARGV[i]
  reply[2] = i - 3
  local length, expire, value = -1, -1, ''
  local exact = true
  local size = redis.pcall('STRLEN', key)
  if type(size) == 'table' then
    length = -2
  elseif size > 0 or redis.call('EXISTS', key) == 1 then
    length = size
    expire = redis.pcall('PEXPIRETIME', key)
    if type(expire) == 'table' then -- a Redis before 7
      local left = redis.call('PTTL', key)
      expire, exact = left < 0 and left or now + left, false
    end
    if length <= tonumber(ARGV[2]) then value = redis.call('GET', key) or '' end
  end
  local score = redis.call('ZSCORE', KEYS[1], key)
  if not exact and score and math.abs(tonumber(score) - 1 - expire) <= 2 then expire = tonumber(score) - 1 end
  local record = redis.call('HGET', KEYS[2], key)
  local same = length >= 0 and score and record and tonumber(score) == expire + 1
  if same and value == '1' then
    same = not string.find(record, '"n":', 1, true)
  elseif same then
    local length = stamps(record)
    local body = length and string.gsub(string.sub(record, length + 2), ',"adopted":true}$', '}')
    same = body == '"json":' .. value .. '}' or
      not string.find(value, '[%c"\\]') and body == '"text":"' .. value .. '"}'
  end
  if not same then
    record = record or ''
    bytes = bytes - #value - #record
    reply[#reply + 1] = {key, value, length, expire, {record, score or '', redis.call('EXISTS', ARGV[1] .. key),
      redis.call('ZSCORE', KEYS[3], key) or '', redis.call('ZSCORE', KEYS[4], key) or ''}}
  end
end
return reply
