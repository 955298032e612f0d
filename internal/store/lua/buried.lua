-- Finds the tombstones of keys in one shard.
-- KEYS  1 tombstones  the last: layout
-- ARGV  digests of keys (keys.AppendDigest)
-- Reply for each digest its latest tombstone, or nil
-- Bound the digests given, times the buckets of tombstones.
local reply = {}
for i = 1, #ARGV do reply[i] = false end
for _, bucket in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local there = redis.call('HMGET', KEYS[1] .. ':' .. bucket, unpack(ARGV))
  for i = 1, #ARGV do reply[i] = there[i] or reply[i] end
end
return reply
