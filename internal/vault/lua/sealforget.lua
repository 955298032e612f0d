-- Marks a subject as forgotten, and deletes its keys.
-- KEYS  1 seals
-- ARGV  1 subject  2 ms of a new mark, "" = now  3 1 = mark the subject, unless it was lifted after 2, and delete its present keys;
--       "" = only the keys that follow  then ids of data keys of the subject
-- Reply {ms of the marks, number of data keys that were deleted}
-- Bound six commands, and two for each id
local call = redis.call
local mark = 'forgotten:' .. ARGV[1]
local at = call('HGET', KEYS[1], mark)
if not at then
  local t = call('TIME')
  at = ARGV[2] ~= '' and ARGV[2] or string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
end
local lifted = tonumber(call('HGET', KEYS[1], 'lifted:' .. ARGV[1]) or 0)
local marks = ARGV[3] == '1' and not (ARGV[2] ~= '' and lifted > tonumber(ARGV[2]))
if marks then
  call('HSET', KEYS[1], mark, at)
end
local ids, has = {unpack(ARGV, 4)}, {}
for _, id in ipairs(ids) do
  has[id] = true
end
local own = string.match(call('HGET', KEYS[1], ARGV[1]) or '', '^%S+')
if own and (marks or has[own]) then
  ids[#ids + 1] = own
  call('HDEL', KEYS[1], ARGV[1])
end
local n = 0
for _, id in ipairs(ids) do
  call('HSETNX', KEYS[1], 'forgotten:' .. id, at .. ' ' .. ARGV[1])
  n = n + call('HDEL', KEYS[1], id)
end
return {tonumber(at), n}
