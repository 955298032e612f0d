-- Counts dead letters of one route and shard by cause.
-- KEYS  1 dead
-- ARGV  1 lowest score  2 highest score  3 rank to start at ("" = at the lowest score)  4 maximum number of entries to read
-- Reply {rank of the next call, -1 = none; then for each cause 4: its code, the number of dead letters, ms of the first and the last death}
-- PARTS score
-- Bound ARGV[4] entries. No record is read. Dead letters that leave the zset between two calls shift the ranks.
local start = tonumber(ARGV[3]) or redis.call('ZCOUNT', KEYS[1], '-inf', '(' .. ARGV[1])
local found = redis.call('ZRANGE', KEYS[1], start, start + ARGV[4] - 1, 'WITHSCORES')
local top = tonumber(ARGV[2]) or math.huge
local more = #found == 2 * ARGV[4]
local count, first, last = {}, {}, {}
for i = 2, #found, 2 do
  local score = tonumber(found[i])
  if score > top then
    more = false
    break
  end
  local code = score % 1 / onedeath
  if not count[code] then count[code], first[code] = 0, found[i] end
  count[code], last[code] = count[code] + 1, found[i]
end
local reply = {more and start + ARGV[4] or -1}
for code, n in pairs(count) do
  for _, v in ipairs({code, n, tonumber(first[code]), tonumber(last[code])}) do reply[#reply + 1] = v end
end
return reply
