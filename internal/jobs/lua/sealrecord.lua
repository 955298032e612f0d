-- Replaces records, or definitions of recurring notices, of one prefix and shard by sealed ones: see package jobs.
-- KEYS  1 records, or recurring  the last: layout
-- ARGV  1 claim prefix, then for each notice 3: key, text that was read, sealed text
-- Reply for each notice 1: replaced; 0: claimed, or its text differs from the one that was read
-- Bound the number of notices, at most 200.
local reply = {}
for i = 2, #ARGV, 3 do
  reply[#reply + 1] = 0
  if redis.call('EXISTS', ARGV[1] .. ARGV[i]) == 0 and redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 2])
    reply[#reply] = 1
  end
end
return reply
