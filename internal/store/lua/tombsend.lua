-- Deletes tombstones of a former shard that have arrived in others.
-- KEYS  1 tombstones  the last: layout
-- ARGV  1 the bucket  then for each: digest of the key, tombstone
-- Reply how many are left in the bucket
-- Bound the tombstones given.
-- A tombstone that has changed since it was read stays, and is moved again.
local bucket = KEYS[1] .. ':' .. ARGV[1]
for i = 2, #ARGV, 2 do
  if redis.call('HGET', bucket, ARGV[i]) == ARGV[i + 1] then redis.call('HDEL', bucket, ARGV[i]) end
end
local left = redis.call('HLEN', bucket)
if left == 0 then redis.call('ZREM', KEYS[1], ARGV[1]) end
return left
