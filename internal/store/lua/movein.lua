-- Puts notices that have left another shard into this one, once.
-- KEYS  1 shadow  2 records  3 dead  4 settled  the last: layout
-- ARGV  1 the other shard's tag  2 the batch's number  3 wake channel  4 "<shard> <route>", then for each notice: key and what
--       moveout.lua said of it: scores in shadow, dead and settled ("-" = none) and record
-- Reply the keys of those that are to stay where they were; the same if it is called again
-- Bound the number of notices given.
-- Something is kept under a key here only if somebody wrote it there who knows nothing of the other shard, as a plain timer's
-- producer does. What is pending takes the place of what has ended; of two that are pending, or dead, both stay.
local call, match = redis.call, string.match
local from = 'from ' .. ARGV[1]
local number, stay = match(call('HGET', KEYS[#KEYS], from) or '0 ', '^(%d+) ?(.*)$')
local reply = {}
if tonumber(number) >= tonumber(ARGV[2]) then
  if number == ARGV[2] then
    for key in string.gmatch(stay, '%S+') do reply[#reply + 1] = key end
  end
  return reply
end
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local head = call('ZRANGEBYSCORE', KEYS[1], string.format('(%.0f.99', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
head = head and tonumber(head) or math.huge
local earliest = math.huge
for i = 5, #ARGV, 2 do
  local key = ARGV[i]
  local at, died, ended, record = match(ARGV[i + 1], '^(%S+) (%S+) (%S+) (.*)$')
  local old, put = call('HGET', KEYS[2], key), true
  if old then
    local same = match(old, '"made":(%d+)') == match(record, '"made":(%d+)')
    local settled = not call('ZSCORE', KEYS[1], key) and not call('ZSCORE', KEYS[3], key)
    put = at ~= '-' and not call('ZSCORE', KEYS[1], key) or died ~= '-' and settled
    if not put and not same and ended == '-' then reply[#reply + 1] = key end
    if put then
      call('ZREM', KEYS[3], key)
      call('ZREM', KEYS[4], key)
    end
  end
  if put then
    call('HSET', KEYS[2], key, record)
    if at ~= '-' then
      local score = tonumber(at)
      -- Its timer's event may have come while it was on its way.
      if score <= now and score % 1 == 0 then at = at .. '.5' end
      call('ZADD', KEYS[1], at, key)
      if score < earliest then earliest = score end
    end
    if died ~= '-' then call('ZADD', KEYS[3], died, key) end
    if ended ~= '-' then call('ZADD', KEYS[4], ended, key) end
  end
end
call('HSET', KEYS[#KEYS], from, ARGV[2] .. ' ' .. table.concat(reply, ' '))
if earliest < head or earliest < now + 6 then
  call('PUBLISH', ARGV[3], string.format('%.0f', earliest) .. ' ' .. ARGV[4])
end
return reply
