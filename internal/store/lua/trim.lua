-- Trims settled notices of some routes of one shard that are too old or too many. Returns those that need a tombstone.
-- KEYS  of each route: settled, records  the last: layout
-- ARGV  1 retention in ms  2 maximum number of settled notices per route  3 maximum number to trim in all  4 tombstone window in ms
--       5 maximum bytes of records to return; then for each route: its prefix, and the age in ms from which notices above the maximum
--       number may be trimmed
-- Reply {trimmed, error, more, route, key, record…}: how many were trimmed; the error text of the last unreadable route, or ""; 1 if
--       there may be more to trim. Then each notice that needs a tombstone (bury.lua), with the number of its route, from 1
-- Bound 64 routes; ARGV[3] notices in all; ARGV[5] bytes, exceeded by at most one record.
-- Deletes the buckets of tombstones whose period ended more than ARGV[4] ms ago. The hash trimmed stores in field <prefix> when the
-- newest notice was settled that was trimmed because of the number. Field "" is the time up to which tombstones may be missing.
local call, format = redis.call, string.format
local base = string.sub(KEYS[#KEYS], 1, -7)
local index, trimmed = base .. 'tombstones', base .. 'trimmed'
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local limit, window, bytes = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local left, failed, more = limit, '', 0
local reply = {0, '', 0}

local function raise(field, ms)
  local had = tonumber(call('HGET', trimmed, field) or 0)
  if ms > had then redis.pcall('HSET', trimmed, field, format('%.0f', ms)) end
end

local function forget(settled, records, list)
  call('ZREM', settled, unpack(list))
  call('HDEL', records, unpack(list))
  left = left - #list
end

-- Of the notices above the maximum number, trims those older than the window and returns the others.
local function over(i, settled, records)
  local many = call('ZCARD', settled) - tonumber(ARGV[2])
  if many <= 0 then return end
  local prefix, young = ARGV[2 * i + 4], tonumber(ARGV[2 * i + 5])
  local last = format('%.0f', now - young) .. '.99'
  local old = call('ZRANGEBYSCORE', settled, '-inf', last, 'WITHSCORES', 'LIMIT', 0, math.min(many, left))
  local plain = {}
  for j = 1, #old, 2 do
    local at = math.floor(tonumber(old[j + 1]))
    local record = at > now - window and bytes > 0 and call('HGET', records, old[j])
    if at <= now - window or record == false and bytes > 0 then
      plain[#plain + 1] = old[j]
      raise(prefix, at)
      raise('', at)
    elseif bytes <= 0 then
      more = 1
    else
      bytes = bytes - #record
      left = left - 1
      reply[#reply + 1] = i
      reply[#reply + 1] = old[j]
      reply[#reply + 1] = record
    end
  end
  if #plain > 0 then forget(settled, records, plain) end
end

for i = 1, (#KEYS - 1) / 2 do
  local settled, records = KEYS[2 * i - 1], KEYS[2 * i]
  if left <= 0 then break end
  local old = redis.pcall('ZRANGEBYSCORE', settled, '-inf', format('%.0f', now - tonumber(ARGV[1])), 'LIMIT', 0, left)
  if old.err then
    failed = old.err
  elseif #old > 0 then
    forget(settled, records, old)
  else
    over(i, settled, records)
  end
end
for _, bucket in ipairs(call('ZRANGEBYSCORE', index, '-inf', format('%.0f', now - window))) do
  call('UNLINK', index .. ':' .. bucket)
  call('ZREM', index, bucket)
  raise('', tonumber(bucket))
end
if left <= 0 then more = 1 end
reply[1], reply[2], reply[3] = limit - left - (#reply - 3) / 3, failed, more
return reply
