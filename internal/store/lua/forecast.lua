-- Counts how many notices of one route and shard are due in each of several consecutive periods.
-- KEYS  1 shadow
-- ARGV  1 start in ms  2 length of a period in ms  3 number of periods  4 up to this number, notices are read one by one
-- Reply {count…}, one for each period
-- Bound ARGV[4] entries, or ARGV[3] counts.
local from, span, n = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local function at(i) return string.format('%.0f', from + i * span) end
local reply = {}
for i = 1, n do reply[i] = 0 end
local total = redis.call('ZCOUNT', KEYS[1], at(0), '(' .. at(n))
if total == 0 then return reply end
if total <= tonumber(ARGV[4]) then
  local found = redis.call('ZRANGEBYSCORE', KEYS[1], at(0), '(' .. at(n), 'WITHSCORES')
  for i = 2, #found, 2 do
    local s = math.floor((tonumber(found[i]) - from) / span) + 1
    reply[s] = reply[s] + 1
  end
  return reply
end
for i = 1, n do reply[i] = redis.call('ZCOUNT', KEYS[1], at(i - 1), '(' .. at(i)) end
return reply
