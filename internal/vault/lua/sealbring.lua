-- Stores data keys that another place has, unless they or their subjects are forgotten. Ends the marks of unused ones.
-- KEYS  1 seals
-- ARGV  for each data key: its id, and the value of its field, which begins with the subject
-- Reply the ids of the data keys that are forgotten, each followed by the ms of its mark
-- Bound three commands for each data key
local call = redis.call
local reply = {}
for i = 1, #ARGV, 2 do
  local marks = call('HMGET', KEYS[1], 'forgotten:' .. string.match(ARGV[i + 1], '^%S*'), 'forgotten:' .. ARGV[i])
  local at = marks[1] or marks[2]
  if at then
    reply[#reply + 1] = ARGV[i]
    reply[#reply + 1] = string.match(at, '^%d+') or '0'
  else
    call('HSETNX', KEYS[1], ARGV[i], ARGV[i + 1])
    call('HDEL', KEYS[1], 'unused:' .. ARGV[i])
  end
end
return reply
