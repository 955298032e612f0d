-- Replaces values of keys, unless they have changed.
-- KEYS  1 seals
-- ARGV  field, the value that was read, the new value, …
-- Reply the number of replaced values
-- Bound the values given.
local n = 0
for i = 1, #ARGV, 3 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 2])
    n = n + 1
  end
end
return n
