-- Releases notices of one route and shard that a pause of their receiver holds.
-- KEYS  1 shadow
-- ARGV  1 the pause  2 the time in ms at which it ended  3 the duration in ms over which the notices are spread
--       4 a number from 0 to 1, the place of each notice in its part of the duration
--       5 "1" = a notice that is postponed until a time within the duration stays so
--       6 maximum number of notices  7 wake channel  8 "<shard> <route>"
-- Reply {released, left}: the number of notices whose score was changed; 1 if more are listed
-- Bound ARGV[6]
-- An entry of the list whose notice has another score than the hold wrote is only removed.
local call, format = redis.call, string.format
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local base, route = string.match(KEYS[1], '^(.-}:)shadow:(.+)$')
local list, holds, pause = base .. 'held:' .. route, base .. 'holds:' .. route, ARGV[1]
local from, to = '[' .. pause .. ' ', '(' .. pause .. '!'
local members = call('ZRANGEBYLEX', list, from, to, 'LIMIT', 0, ARGV[6])
if #members == 0 then return {0, 0} end
local names = {}
for i, member in ipairs(members) do names[i] = string.sub(member, #pause + 2) end
local values, scores = call('HMGET', holds, unpack(names)), call('ZMSCORE', KEYS[1], unpack(names))
local head = call('ZRANGEBYSCORE', KEYS[1], format('(%.0f.99', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
head = head and tonumber(head) or math.huge
local start, over = tonumber(ARGV[2]), tonumber(ARGV[3])
local forget, release = {}, {}
for i, key in ipairs(names) do
  local score, by = string.match(values[i] or '', '^(%S+) (.+)$')
  if by == pause then
    forget[#forget + 1] = key
    local at = scores[i] and tonumber(scores[i])
    if at and at == tonumber(score) and not (ARGV[5] == '1' and at < start + over + 1) then release[#release + 1] = key end
  end
end
local moves, earliest = {}, math.huge
for i, key in ipairs(release) do
  local at = math.max(now, start + math.floor((i - 1 + tonumber(ARGV[4])) / #release * over))
  moves[2 * i - 1], moves[2 * i] = format('%.17g', at + 132 / 256), key
  if at < earliest then earliest = at end
end
if #moves > 0 then call('ZADD', KEYS[1], unpack(moves)) end
call('ZREM', list, unpack(members))
if #forget > 0 then call('HDEL', holds, unpack(forget)) end
if earliest < head or earliest < now + 51 then
  redis.pcall('PUBLISH', ARGV[7], format('%.0f', earliest) .. ' ' .. ARGV[8])
end
return {#release, call('ZLEXCOUNT', list, from, to) > 0 and 1 or 0}
