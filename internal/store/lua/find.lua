-- Reads notices of one route and shard.
-- KEYS  1 shadow  2 records  3 dead  4 settled
-- ARGV  1 claim prefix, then the keys
-- Reply for each key {record, shadow, claimed, dead, settled}; "" where there is none, claimed 0 or 1
-- Bound the keys given.
local reply = {}
for i = 2, #ARGV do
  local key = ARGV[i]
  reply[#reply + 1] = {
    redis.call('HGET', KEYS[2], key) or '', redis.call('ZSCORE', KEYS[1], key) or '', redis.call('EXISTS', ARGV[1] .. key),
    redis.call('ZSCORE', KEYS[3], key) or '', redis.call('ZSCORE', KEYS[4], key) or ''}
end
return reply
