-- Sets or deletes one entry of the hash of paused receivers and limits.
-- KEYS  1 receivers
-- ARGV  1 field  2 the value after its time, or "" = delete  3 maximum number of entries  4 the value that the caller read, "" = any
-- Reply 1 the change was made; 0 there are too many entries, -1 the entry has another value: nothing was written
-- Bound one entry
-- The field # is the version, which grows with each change. It is at least the time in µs, so that a Redis that has lost changes
-- gives no version twice.
local call = redis.call
local t = call('TIME')
local old = call('HGET', KEYS[1], ARGV[1])
if ARGV[4] ~= '' and old ~= ARGV[4] then return -1 end
if ARGV[2] == '' then
  call('HDEL', KEYS[1], ARGV[1])
else
  if not old and call('HLEN', KEYS[1]) > tonumber(ARGV[3]) then return 0 end
  call('HSET', KEYS[1], ARGV[1], string.format('{"at":%.0f', t[1] * 1000 + math.floor(t[2] / 1000)) .. ARGV[2])
end
local version = math.max(t[1] * 1000000 + t[2], tonumber(call('HGET', KEYS[1], '#') or 0) + 1)
call('HSET', KEYS[1], '#', string.format('%.0f', version))
return 1
