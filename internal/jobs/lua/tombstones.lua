-- Deletes the tombstones of keys in one shard.
-- KEYS  1 tombstones  the last: layout
-- ARGV  digests of keys (keys.AppendDigest)
-- Reply how many there were
-- Bound the digests given, times the buckets of tombstones.
local n = 0
for _, bucket in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  n = n + redis.call('HDEL', KEYS[1] .. ':' .. bucket, unpack(ARGV))
end
return n
