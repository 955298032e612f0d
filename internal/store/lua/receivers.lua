-- Sets or deletes one entry of the hash of paused receivers and limits.
-- KEYS  1 receivers
-- ARGV  1 field  2 the value after its time, or "" = delete  3 maximum number of entries
--       4 the value that the caller read, "" = any, "-" = none
--       5 the client that makes the entry, "-" = no client is configured  6 maximum number of entries that it has made
-- Reply {1, version before, version, value} the change was made; {0} there are too many entries, {-2} the client has made too many,
--       {-1} the entry has another value: nothing was written
-- Bound one entry
-- The field # is the version, which grows with each change. It is at least the time in µs, so that a Redis that has lost changes
-- gives no version twice. The field ## is the number of entries, and # with the name of a client the number of those that it has
-- made. A changed entry still counts for the client that has made it.
local call = redis.call
local t = call('TIME')
local old = call('HGET', KEYS[1], ARGV[1])
if ARGV[4] ~= '' and (old or '-') ~= ARGV[4] then return {-1} end

local before = call('HGET', KEYS[1], '#') or '0'
local all = tonumber(call('HGET', KEYS[1], '##') or call('HLEN', KEYS[1]) - call('HEXISTS', KEYS[1], '#'))
local maker, value = ARGV[5], ''
if old then
  local read, entry = pcall(cjson.decode, old)
  maker = read and type(entry) == 'table' and type(entry.client) == 'string' and entry.client or '-'
elseif ARGV[2] ~= '' then
  if tonumber(call('HGET', KEYS[1], '#' .. maker) or 0) >= tonumber(ARGV[6]) then return {-2} end
  if all >= tonumber(ARGV[3]) then return {0} end
end

local made = '#' .. maker
if ARGV[2] == '' then
  if call('HDEL', KEYS[1], ARGV[1]) == 1 then
    all = all - 1
    if call('HINCRBY', KEYS[1], made, -1) <= 0 then call('HDEL', KEYS[1], made) end
  end
else
  value = string.format('{"at":%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
  if maker ~= '-' then value = value .. ',"client":' .. cjson.encode(maker) end
  value = value .. ARGV[2]
  if call('HSET', KEYS[1], ARGV[1], value) == 1 then
    all = all + 1
    call('HINCRBY', KEYS[1], made, 1)
  end
end
local version = string.format('%.0f', math.max(t[1] * 1000000 + t[2], tonumber(before) + 1))
call('HSET', KEYS[1], '##', all, '#', version)
return {1, before, version, value}
