-- Puts tombstones of another shard, or of another Redis, into a bucket of this one.
-- KEYS  1 tombstones  the last: layout
-- ARGV  1 the bucket  then for each: digest of the key, tombstone
-- Reply how many were not there yet
-- Bound the tombstones given.
-- A tombstone that is there already is the later one: its notice was scheduled after the move began.
local n = 0
for i = 2, #ARGV, 2 do
  n = n + redis.call('HSETNX', KEYS[1] .. ':' .. ARGV[1], ARGV[i], ARGV[i + 1])
end
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[1])
return n
