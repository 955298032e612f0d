-- Finds the prefix under which each notice of one shard is stored.
-- KEYS  the records of each prefix to check  the last: layout
-- ARGV  keys
-- Reply for each key the number of the first of KEYS that has it, 0 = none
-- Bound the keys given, times the prefixes: at most three cover a key, and those below them.
local reply = {}
for i = 1, #ARGV do reply[i] = 0 end
for k = #KEYS - 1, 1, -1 do
  local there = redis.call('HMGET', KEYS[k], unpack(ARGV))
  for i = 1, #ARGV do
    if there[i] then reply[i] = k end
  end
end
return reply
