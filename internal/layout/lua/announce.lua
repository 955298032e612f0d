-- Puts other shards in the place of those there are.
-- KEYS  1 notifier:meta
-- ARGV  1 how it must stand: layout, shards, tags and former tags, each behind a space; then fields and values to write, beside since (Unix s)
-- Reply 1, or 0 = it does not stand so, and nothing was written
-- Bound the fields given.
local had = redis.call('HMGET', KEYS[1], 'layout', 'shards', 'tags', 'former')
local stands = ''
for i = 1, 4 do stands = stands .. ' ' .. (had[i] or '') end
if stands ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'since', redis.call('TIME')[1], unpack(ARGV, 2))
return 1
