-- Notes in all places, outside a cluster, that the old shards are empty.
-- KEYS  the keys that must not exist, then layout of each place  the last: layout
-- ARGV  1 how many keys must not exist  2 the number of places
-- Reply 1, or 0 = one of those keys exists, and nothing was written
-- Bound the keys given.
-- guard.lua compares the state with its "+", as register.lua writes it. The field whole is for producers' own scripts, which check
-- one shard only.
for i = 1, tonumber(ARGV[1]) do
  if redis.call('EXISTS', KEYS[i]) == 1 then return 0 end
end
for i = ARGV[1] + 1, #KEYS - 1 do
  local had = redis.call('HMGET', KEYS[i], 'places', 'state')
  if had[1] == ARGV[2] and had[2] then
    redis.call('HSET', KEYS[i], 'whole', ARGV[2], 'empty', ARGV[2], 'state', (string.gsub(had[2], '%+?$', '+', 1)))
  end
end
return 1
