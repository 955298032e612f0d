-- Counts dead letters of one shard by route and cause.
-- KEYS  the zsets of dead letters, one for each route
-- ARGV  1 lowest score  2 highest score  3 number of the first zset to read, from 1  4 rank to start at in it ("" = at the lowest score)
--       5 maximum number of entries to read
-- Reply {zset and rank of the next call, 0 = none; then for each zset and cause 5: number of the zset, code of the cause, number of dead
--       letters, ms of the first and the last death}
-- PARTS score
-- Bound ARGV[5] entries, and the keys given. No record is read. Dead letters that leave a zset between two calls shift the ranks.
local left, top = tonumber(ARGV[5]), tonumber(ARGV[2]) or math.huge
local reply = {0, 0}
for k = tonumber(ARGV[3]), #KEYS do
  local start = k == tonumber(ARGV[3]) and tonumber(ARGV[4]) or redis.call('ZCOUNT', KEYS[k], '-inf', '(' .. ARGV[1])
  local found = redis.call('ZRANGE', KEYS[k], start, start + left - 1, 'WITHSCORES')
  local more = #found == 2 * left
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
  for code, n in pairs(count) do
    for _, v in ipairs({k, code, n, tonumber(first[code]), tonumber(last[code])}) do reply[#reply + 1] = v end
  end
  if more then
    reply[1], reply[2] = k, start + left
    break
  end
  left = left - #found / 2
end
return reply
