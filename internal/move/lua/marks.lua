-- Marks notices of a shard as stored on the other side of a migration, or removes their marks.
-- KEYS  1 elsewhere  then the records of each prefix that may have the notices  the last: layout
-- ARGV  1 "+" = mark the notices without a record in this shard, "-" = remove the marks; then keys
-- Reply 1
-- Bound the keys given, times the prefixes.
if #ARGV == 1 then return 1 end
if ARGV[1] == '-' then
  redis.call('HDEL', KEYS[1], unpack(ARGV, 2))
  return 1
end
local here = {}
for k = 2, #KEYS - 1 do
  local records = redis.call('HMGET', KEYS[k], unpack(ARGV, 2))
  for i = 2, #ARGV do here[i] = here[i] or records[i - 1] end
end
for i = 2, #ARGV do
  if not here[i] then redis.call('HSETNX', KEYS[1], ARGV[i], '?') end
end
return 1
