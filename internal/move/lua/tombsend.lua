-- Deletes tombstones of an old shard that have been copied to other shards.
-- KEYS  1 tombstones  the last: layout
-- ARGV  1 the bucket  then for each: digest of the key, tombstone
-- Reply the number of tombstones left in the bucket
-- Bound the tombstones given.
-- A tombstone that has changed since it was copied stays, and is copied again.
local bucket = KEYS[1] .. ':' .. ARGV[1]
for i = 2, #ARGV, 2 do
  if redis.call('HGET', bucket, ARGV[i]) == ARGV[i + 1] then redis.call('HDEL', bucket, ARGV[i]) end
end
local left = redis.call('HLEN', bucket)
if left == 0 then redis.call('ZREM', KEYS[1], ARGV[1]) end
return left
