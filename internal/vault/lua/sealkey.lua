-- Stores new keys of a subject, unless it has keys or is forgotten.
-- KEYS  1 seals
-- ARGV  1 subject  2 the value of its field  3 id of the data key  4 the value of that field
-- Reply the value of the subject's field, or {ms}: the subject was forgotten then, and nothing was written
-- Bound four commands
local call = redis.call
local at = call('HGET', KEYS[1], 'forgotten:' .. ARGV[1])
if at then return {tonumber(at)} end
local old = call('HGET', KEYS[1], ARGV[1])
if old then return old end
call('HSET', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4])
return ARGV[2]
