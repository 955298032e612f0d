-- Takes or extends a lock for the holder of a token.
-- KEYS  1 the lock
-- ARGV  1 token  2 for so many ms  3 the token of a dead holder, whose lock is taken, "" = none
-- Reply the token of the current holder
-- Bound one key.
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] and holder ~= ARGV[3] then return holder end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ARGV[1]
