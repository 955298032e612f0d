-- Stores keys of a subject, unless it has keys or is forgotten.
-- KEYS  1 seals
-- ARGV  1 subject  2 the value of its field  3 id of the data key  4 the value of that field
-- Reply the value of the subject's field, or {ms}: the subject or its data key was forgotten then, and nothing was written
-- Bound four commands
local call = redis.call
local marks = call('HMGET', KEYS[1], 'forgotten:' .. ARGV[1], 'forgotten:' .. ARGV[3])
local at = marks[1] or marks[2]
if at then return {tonumber(string.match(at, '^%d+') or '0')} end
local old = call('HGET', KEYS[1], ARGV[1])
if old then return old end
call('HSET', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4])
return ARGV[2]
