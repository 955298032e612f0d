-- Marks a subject as forgotten, and deletes its keys.
-- KEYS  1 seals
-- ARGV  1 subject  2 ms of a new mark, "" = now  then ids of data keys of the subject
-- Reply {ms of the marks, number of data keys that were deleted}
-- Bound eight commands, and two for each id
local call = redis.call
local function time(name)
  local ms = tonumber(string.match(call('HGET', KEYS[1], name) or '', '^%d+') or '')
  return ms and ms > 0 and ms < 1e15 and ms
end
local mark, lifted = 'forgotten:' .. ARGV[1], 'lifted:' .. ARGV[1]
local at = time(mark)
if not at then
  local t = call('TIME')
  -- The clock of the lift may be ahead.
  at = math.max(tonumber(ARGV[2]) or t[1] * 1000 + math.floor(t[2] / 1000), (time(lifted) or 0) + 1)
end
local text = string.format('%.0f', at)
call('HSET', KEYS[1], mark, text)
call('HDEL', KEYS[1], lifted)
local ids = {unpack(ARGV, 3)}
local own = string.match(call('HGET', KEYS[1], ARGV[1]) or '', '^%S+')
if own then
  ids[#ids + 1] = own
  call('HDEL', KEYS[1], ARGV[1])
end
local n = 0
for _, id in ipairs(ids) do
  call('HSETNX', KEYS[1], 'forgotten:' .. id, text .. ' ' .. ARGV[1])
  n = n + call('HDEL', KEYS[1], id)
end
return {at, n}
