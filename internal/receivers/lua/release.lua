-- Releases notices of one route and shard that a pause of their receiver holds.
-- KEYS  1 shadow
-- ARGV  1 the pause  2 the time in ms at which it ended  3 the duration in ms over which the notices are spread
--       4 a number from 0 to 1, the place of each notice in its part of the duration
--       5 "1" = a notice that is postponed until a time within the duration stays so
--       6 maximum number of notices  7 wake channel  8 "<shard> <route>"  9 the key of the only notice to release, absent = all
-- Reply {released, left}: the number of notices whose score was changed; 1 if more are listed
-- PARTS score clock release wake
-- Bound ARGV[6]
-- An entry of the list whose notice has another score than the hold wrote is only removed.
local call = redis.call
local base, route = string.match(KEYS[1], '^(.-}:)shadow:(.+)$')
local list, holds, pause = base .. 'held:' .. route, base .. 'holds:' .. route, ARGV[1]
local from, to = '[' .. pause .. ' ', '(' .. pause .. '!'
local members = ARGV[9] and {pause .. ' ' .. ARGV[9]} or call('ZRANGEBYLEX', list, from, to, 'LIMIT', 0, ARGV[6])
if #members == 0 then return {0, 0} end
local names = {}
for i, member in ipairs(members) do names[i] = string.sub(member, #pause + 2) end
local values, scores = call('HMGET', holds, unpack(names)), call('ZMSCORE', KEYS[1], unpack(names))
local start, over = tonumber(ARGV[2]), tonumber(ARGV[3])
local forget, freed = {}, {}
for i, key in ipairs(names) do
  local score, by = string.match(values[i] or '', '^(%S+) (.+)$')
  if by == pause then
    forget[#forget + 1] = key
    local at = scores[i] and tonumber(scores[i])
    if at and at == tonumber(score) and not (ARGV[5] == '1' and at < start + over + 1) then freed[#freed + 1] = key end
  end
end
local earliest = release(KEYS[1], freed, start, over, tonumber(ARGV[4]))
call('ZREM', list, unpack(members))
if #forget > 0 then call('HDEL', holds, unpack(forget)) end
wake(earliest, KEYS[1], ARGV[7], ARGV[8])
return {#freed, call('ZLEXCOUNT', list, from, to) > 0 and 1 or 0}
