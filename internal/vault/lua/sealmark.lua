-- Marks subjects and data keys as forgotten, as of given times, and deletes their keys.
-- KEYS  1 seals
-- ARGV  for each mark: the subject, its ms, and the id of a data key, "" = the subject itself is marked, unless it was lifted since
-- Reply the subjects that are not marked, because they were lifted since
-- Bound five commands for each mark
local call = redis.call
local function delete(id, of, ms)
  call('HSETNX', KEYS[1], 'forgotten:' .. id, ms .. ' ' .. of)
  call('HDEL', KEYS[1], id)
end
local reply = {}
for i = 1, #ARGV, 3 do
  local of, ms, id = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local own = string.match(call('HGET', KEYS[1], of) or '', '^%S+')
  local marks = id == ''
  if marks and (tonumber(call('HGET', KEYS[1], 'lifted:' .. of) or '') or 0) > tonumber(ms) then
    reply[#reply + 1] = of
    marks = false
  end
  if marks then call('HSETNX', KEYS[1], 'forgotten:' .. of, ms) end
  if id ~= '' then delete(id, of, ms) end
  if own and (marks or own == id) then
    delete(own, of, ms)
    call('HDEL', KEYS[1], of)
  end
end
return reply
