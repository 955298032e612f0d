-- Holds something for one who is called by a token.
-- KEYS  1 what is held
-- ARGV  1 token  2 for so many ms  3 the token of who is dead, "" = of nobody
-- Reply the token of who holds it now
-- Bound one key.
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] and holder ~= ARGV[3] then return holder end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ARGV[1]
