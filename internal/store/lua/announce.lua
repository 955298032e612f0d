-- Replaces the current shards by others.
-- KEYS  1 notifier:meta
-- ARGV  1 the expected layout, shards, tags and former, each after a space; then fields and values to write, in addition to since (Unix s)
-- Reply 1, or 0 = other values are stored, and nothing was written
-- Bound the fields given.
local had = redis.call('HMGET', KEYS[1], 'layout', 'shards', 'tags', 'former')
local stored = ''
for i = 1, 4 do stored = stored .. ' ' .. (had[i] or '') end
if stored ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'since', redis.call('TIME')[1], unpack(ARGV, 2))
return 1
