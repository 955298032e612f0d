-- Replaces a shard's copy of the hash of paused receivers and limits.
-- KEYS  1 the copy
-- ARGV  field, value… of the hash, with its version
-- Reply {}
-- Bound the entries given, at most 10,000, and the fields of the version and of numbers
redis.call('DEL', KEYS[1])
for i = 1, #ARGV, 2000 do redis.call('HSET', KEYS[1], unpack(ARGV, i, math.min(i + 1999, #ARGV))) end
return {}
