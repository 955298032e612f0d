-- Gives a subject another data key for new texts, unless its keys have changed, or it or the data key is forgotten.
-- KEYS  1 seals
-- ARGV  1 subject  2 the value of its field that was read  3 the new value  4 id of the new data key  5 the value of that field
-- Reply 1, or 0: nothing was written
-- Bound six commands
local call = redis.call
local marks = call('HMGET', KEYS[1], 'forgotten:' .. ARGV[1], 'forgotten:' .. ARGV[4])
if marks[1] or marks[2] or call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
call('HSET', KEYS[1], ARGV[1], ARGV[3], ARGV[4], ARGV[5])
call('HDEL', KEYS[1], 'since:' .. string.match(ARGV[2], '^%S+'), 'unused:' .. ARGV[4])
return 1
