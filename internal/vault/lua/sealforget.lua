-- Marks a subject as forgotten, and deletes its keys.
-- KEYS  1 seals
-- ARGV  1 subject  2 ms of a new mark, "" = now, then ids of data keys of the subject
-- Reply {ms of the mark, number of data keys that were deleted}
-- Bound four commands, and two for each id
local call = redis.call
local mark = 'forgotten:' .. ARGV[1]
local at = call('HGET', KEYS[1], mark)
if not at then
  local t = call('TIME')
  at = ARGV[2] ~= '' and ARGV[2] or string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
  call('HSET', KEYS[1], mark, at)
end
local ids = {unpack(ARGV, 3)}
local own = call('HGET', KEYS[1], ARGV[1])
if own then
  ids[#ids + 1] = string.match(own, '^%S+')
  call('HDEL', KEYS[1], ARGV[1])
end
local n = 0
for _, id in ipairs(ids) do
  call('HSETNX', KEYS[1], 'forgotten:' .. id, at .. ' ' .. ARGV[1])
  n = n + call('HDEL', KEYS[1], id)
end
return {tonumber(at), n}
