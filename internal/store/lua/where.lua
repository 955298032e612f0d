-- Finds the notices that are stored in an old shard.
-- KEYS  1 moving  then the records of each prefix to check  the last: layout
-- ARGV  keys
-- Reply for each key 1 = stored here, 2 = in transit to another shard, 0 = neither
-- Bound the keys given, times the prefixes.
local reply = {}
local away = redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HMGET', KEYS[1], unpack(ARGV)) or {}
for i = 1, #ARGV do reply[i] = away[i] and 2 or 0 end
for k = 2, #KEYS - 1 do
  local there = redis.call('HMGET', KEYS[k], unpack(ARGV))
  for i = 1, #ARGV do
    if there[i] then reply[i] = 1 end
  end
end
return reply
