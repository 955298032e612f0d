-- Marks a subject as forgotten, and deletes its keys.
-- KEYS  1 seals
-- ARGV  1 subject, then ids of its data keys
-- Reply {ms of the mark, number of data keys that were deleted}
-- Bound six commands, and three for each id
local call = redis.call
local mark = 'forgotten:' .. ARGV[1]
local at = call('HGET', KEYS[1], mark)
if not at then
  local t = call('TIME')
  at = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
  call('HSET', KEYS[1], mark, at)
end
local ids = {unpack(ARGV, 2)}
local own = call('HGET', KEYS[1], ARGV[1])
if own then
  ids[#ids + 1] = string.match(own, '^%S+')
  call('HDEL', KEYS[1], ARGV[1])
end
local n = 0
for _, id in ipairs(ids) do
  if call('HEXISTS', KEYS[1], id) == 1 then
    call('HSET', KEYS[1], 'forgotten:' .. id, at)
    call('HDEL', KEYS[1], id)
    n = n + 1
  end
end
return {tonumber(at), n}
