-- Finds where the notices of one shard are stored.
-- KEYS  1 moving  then the records of each prefix to check  the last: layout
-- ARGV  keys
-- Reply for each key the number of the first prefix that has it, from 1; -1 = in transit to another shard, 0 = neither
-- Bound the keys given, times the prefixes: at most three cover a key, and those below them.
local reply = {}
local away = redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HMGET', KEYS[1], unpack(ARGV)) or {}
for i = 1, #ARGV do reply[i] = away[i] and -1 or 0 end
for k = #KEYS - 1, 2, -1 do
  local there = redis.call('HMGET', KEYS[k], unpack(ARGV))
  for i = 1, #ARGV do
    if there[i] then reply[i] = k - 1 end
  end
end
return reply
