-- Copies tombstones of another shard, or of another Redis, to a bucket of this shard.
-- KEYS  1 tombstones  the last: layout
-- ARGV  1 the bucket  then for each: digest of the key, tombstone
-- Reply the number of new tombstones
-- Bound the tombstones given.
-- Of two tombstones of a key, the one of the later notice stays. A migration that is turned back copies tombstones that can be
-- older than those of this side. The last 7 bytes of a tombstone are the generation of its notice.
local call, byte = redis.call, string.byte
local bucket, n = KEYS[1] .. ':' .. ARGV[1], 0

local function made(tombstone)
  local at = 0
  for i = math.max(#tombstone - 6, 1), #tombstone do at = at * 256 + byte(tombstone, i) end
  return at
end

for i = 2, #ARGV, 2 do
  local there = call('HGET', bucket, ARGV[i])
  if not there then n = n + 1 end
  if not there or made(there) < made(ARGV[i + 1]) then call('HSET', bucket, ARGV[i], ARGV[i + 1]) end
end
call('ZADD', KEYS[1], ARGV[1], ARGV[1])
return n
