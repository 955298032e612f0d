-- Marks notices of a shard as being on the other side of a migration, or removes their marks.
-- KEYS  1 elsewhere  then the records of each prefix under which the notices may lie  the last: layout
-- ARGV  1 "+" = mark those of which this shard has no record, "-" = remove the marks; then keys
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
