-- Marks subjects and data keys as forgotten, and deletes their keys.
-- KEYS  1 seals
-- ARGV  1 "again" = leave subjects that were lifted since, "" = forget them again  then for each mark: the subject, its ms ("" = now), and
--       the id of a data key ("" = the subject itself is marked)
-- Reply {number of data keys that were deleted, and for each mark its ms; -1 = the subject was lifted since, and is not marked}
-- Bound nine commands for each mark, and two
local call = redis.call
local function time(name)
  local ms = tonumber(string.match(call('HGET', KEYS[1], name) or '', '^%d+') or '')
  return ms and ms > 0 and ms < 1e15 and ms
end
local now = call('TIME')
now = now[1] * 1000 + math.floor(now[2] / 1000)
local reply = {0}
local function delete(id, of, ms)
  call('HSETNX', KEYS[1], 'forgotten:' .. id, ms .. ' ' .. of)
  reply[1] = reply[1] + call('HDEL', KEYS[1], id)
end
if ARGV[1] == '' then call('HDEL', KEYS[1], 'recalled') end
for i = 2, #ARGV, 3 do
  local of, at, id = ARGV[i], tonumber(ARGV[i + 1]) or now, ARGV[i + 2]
  local marks = id == ''
  if marks then
    local lifted = time('lifted:' .. of) or 0
    if ARGV[1] == 'again' and lifted > at then
      marks, at = false, -1
    else
      -- The clock of the lift may be ahead.
      at = time('forgotten:' .. of) or math.max(at, lifted + 1)
    end
  end
  local text = string.format('%.0f', at)
  if marks then
    call('HSET', KEYS[1], 'forgotten:' .. of, text)
    call('HDEL', KEYS[1], 'lifted:' .. of)
  elseif id ~= '' then
    delete(id, of, text)
  end
  local own = string.match(call('HGET', KEYS[1], of) or '', '^%S+')
  if own and (marks or own == id) then
    delete(own, of, text)
    call('HDEL', KEYS[1], of)
  end
  reply[#reply + 1] = at
end
return reply
