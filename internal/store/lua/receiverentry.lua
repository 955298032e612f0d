-- Changes one entry of a shard's copy of the hash of paused receivers and limits.
-- KEYS  1 the copy
-- ARGV  1 field  2 the value, "" = delete  3 the version of the hash before the change  4 its version after the change
-- Reply {1} the copy has the change; {0} the copy lacks earlier changes: nothing was written
-- Bound one entry
local call = redis.call
local has = tonumber(call('HGET', KEYS[1], '#') or 0)
if has >= tonumber(ARGV[4]) then return {1} end
if has ~= tonumber(ARGV[3]) then return {0} end
if ARGV[2] == '' then
  call('HDEL', KEYS[1], ARGV[1])
else
  call('HSET', KEYS[1], ARGV[1], ARGV[2])
end
call('HSET', KEYS[1], '#', ARGV[4])
return {1}
