-- Notes in all places, outside a cluster, that the former shards hold nothing.
-- KEYS  what must not be there, then layout of each place  the last: layout
-- ARGV  1 how many must not be there  2 how many places there are
-- Reply 1, or 0 = one of them is there, and nothing was written
-- Bound the keys given.
-- guard.lua knows it by the "+" behind the state, as register.lua writes it; whole is for producers' own scripts, which look at one
-- shard only.
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
