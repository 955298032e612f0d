-- Reads notices of one shard.
-- KEYS  1 shadow  2 records  3 dead  4 settled of a prefix, then the same four of the other prefixes to check, in order
--       the last: layout
-- ARGV  1 claim prefix, then the keys
-- Reply for each key {record, shadow, claimed, dead, settled}; "" for a missing one, claimed 0 or 1. Under another prefix than the
--       first, a sixth element is the number of that prefix, from 1
-- Bound the keys given, times the prefixes.
local reply = {}
for i = 2, #ARGV do
  local key, record, at = ARGV[i], false, 1
  for k = 1, #KEYS - 1, 4 do
    if not record then record, at = redis.call('HGET', KEYS[k + 1], key), k end
  end
  if not record then at = 1 end
  reply[#reply + 1] = {
    record or '', redis.call('ZSCORE', KEYS[at], key) or '', redis.call('EXISTS', ARGV[1] .. key),
    redis.call('ZSCORE', KEYS[at + 2], key) or '', redis.call('ZSCORE', KEYS[at + 3], key) or '', at > 1 and (at - 1) / 4 or nil}
end
return reply
