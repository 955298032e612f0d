-- Replaces a receiver's entry in a route's hash of outages, or a cause in that of a hook, if it is as it was read.
-- KEYS  1 notifier:{health}down:<route> or notifier:{health}causes:<hook>
-- ARGV  1 receiver or cause  2 entry that was read, empty = none  3 new entry, empty = removed
--       4 ms that the hash is kept
-- Reply 1 = replaced, 0 = another instance has changed the entry
-- Bound one entry.
local hash, name = KEYS[1], ARGV[1]
if (redis.call('HGET', hash, name) or '') ~= ARGV[2] then return 0 end
if ARGV[3] == '' then
  redis.call('HDEL', hash, name)
else
  redis.call('HSET', hash, name, ARGV[3])
  redis.call('PEXPIRE', hash, tonumber(ARGV[4]))
end
return 1
