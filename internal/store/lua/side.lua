-- Writes the role of this Redis in a migration into notifier:meta.
-- KEYS  1 notifier:meta
-- ARGV  1 the expected epoch, "0" = none  2 "<epoch> <state> <id> <other>", then additional fields and values to write
-- Reply 1, or 0 = another epoch is stored, and nothing was written
-- Bound the fields given.
local epoch = string.match(redis.call('HGET', KEYS[1], 'side') or '0', '^%d+')
if epoch ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'side', unpack(ARGV, 2))
return 1
