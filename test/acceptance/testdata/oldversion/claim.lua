-- Claims notices of one route and shard for a lease.
-- KEYS  1 shadow  2 records
-- ARGV  1 claim prefix  2 token  3 lease ms  4 at most so many bytes of records  5 grace ms
--       6 "k": the keys follow;  "o" or "n": sweep, 7 = how many, from the oldest or the newest of the overdue;
--         "t": what a call with this token has claimed whose reply was lost, 7 = how many it asked for, 8 = made at most so
--         many ms ago
-- Reply {now us, overdue left, key, answer, record…}; overdue left is 1 if a sweep was cut off by its bound, else 0. An
--       answer is
--       "<score before> <lapses> <score now>"  won
--       0 lost to another claim   -1 stale: not pending or not due   -2 no record: dropped from the shadow
-- Bound the keys given or asked for, and ARGV[4] bytes, overshot by at most 16 records. What is cut off has no answer.
--       "t" looks at 10,000 entries at most; what it does not find comes back when its lease has lapsed.
-- The score moves to the lease's end plus (1 + lapses)/1024: a claim whose holder died is found by the sweep like
-- everything else, and the fraction says how many died. Fractions from .5 on are no claims: see schedule.lua.
local call, format, floor = redis.call, string.format, math.floor
local t = call('TIME')
local now = t[1] * 1000 + floor(t[2] / 1000)
local prefix, token, lease, mode, bytes, left = ARGV[1], ARGV[2], ARGV[3], ARGV[6], tonumber(ARGV[4]), 0
local reply, size = {t[1] * 1000000 + t[2], 0}, 2
local names, scores, count = {}, {}, 0
if mode == 'k' then
  for i = 7, #ARGV do
    count = count + 1
    names[count] = ARGV[i]
  end
  scores = call('ZMSCORE', KEYS[1], unpack(names))
elseif mode ~= 't' then
  local want = tonumber(ARGV[7])
  local ripe = format('%.0f', now - tonumber(ARGV[5])) .. '.99'
  local due
  if mode == 'o' then
    due = call('ZRANGEBYSCORE', KEYS[1], '-inf', ripe, 'WITHSCORES', 'LIMIT', 0, want)
  else
    due = call('ZREVRANGEBYSCORE', KEYS[1], ripe, '-inf', 'WITHSCORES', 'LIMIT', 0, want)
  end
  for i = 1, #due, 2 do
    count = count + 1
    names[count], scores[count] = due[i], due[i + 1]
  end
  if count >= want then
    left = 1
  else
    -- Within the grace only what has no timer.
    local young = call('ZRANGEBYSCORE', KEYS[1], '(' .. ripe, format('%.0f', now) .. '.99',
      'WITHSCORES', 'LIMIT', 0, 4 * want)
    for i = 1, #young, 2 do
      if count < want and string.find(young[i + 1], '.', 1, true) then
        count = count + 1
        names[count], scores[count] = young[i], young[i + 1]
      end
    end
  end
end

local over = now + tonumber(lease)
local first = format('%.17g', over + 1 / 1024) -- of a claim before which none has lapsed
local plain = ' 0 ' .. first
local moves, moved, gone = {}, 0, {}
local won, place, ends, wins = {}, {}, {}, 0

-- Reads the records of what was just won, some at a time, so that the bytes are known before more is claimed.
local function read()
  if wins == 0 then return end
  local records = call('HMGET', KEYS[2], unpack(won))
  for j = 1, wins do
    local record, at = records[j], place[j]
    if record then
      bytes = bytes - #record
      reply[at + 1] = record
      moves[moved + 1], moves[moved + 2] = ends[j], won[j]
      moved = moved + 2
    else
      reply[at] = -2
      gone[#gone + 1] = won[j]
    end
  end
  won, place, ends, wins = {}, {}, {}, 0
end

if mode == 't' then
  local want, since = tonumber(ARGV[7]), over - tonumber(ARGV[8])
  local near = call('ZRANGEBYSCORE', KEYS[1], format('%.0f', since), format('%.0f', over) .. '.49',
    'WITHSCORES', 'LIMIT', 0, 10000)
  for i = 1, #near, 2 do
    local score = tonumber(near[i + 1])
    local lapses = (score % 1) * 1024
    if wins < want and lapses > 0 and lapses < 500 and call('GET', prefix .. near[i]) == token then
      wins = wins + 1
      won[wins], place[wins], ends[wins] = near[i], size + 2, near[i + 1]
      reply[size + 1], reply[size + 2], reply[size + 3] = near[i], near[i + 1] .. ' ' .. (lapses - 1) .. ' ' .. near[i + 1], ''
      size = size + 3
    end
  end
end
for i = 1, count do
  local key, text = names[i], scores[i]
  local score = text and tonumber(text)
  local answer = -1
  if score and floor(score) <= now then
    if call('SET', prefix .. key, token, 'NX', 'PX', lease) then
      local lapses = (score % 1) * 1024
      wins = wins + 1
      won[wins], place[wins] = key, size + 2
      if lapses == 0 or lapses >= 500 then
        ends[wins], answer = first, text .. plain
      else
        ends[wins] = format('%.17g', over + math.min(lapses + 1, 499) / 1024)
        answer = text .. ' ' .. lapses .. ' ' .. ends[wins]
      end
    else
      answer = 0
    end
  end
  reply[size + 1], reply[size + 2], reply[size + 3] = key, answer, ''
  size = size + 3
  if wins == 16 then
    read()
    if bytes <= 0 then
      if i < count then left = 1 end
      break
    end
  end
end
read()
if moved > 0 then call('ZADD', KEYS[1], unpack(moves)) end
for _, key in ipairs(gone) do
  call('ZREM', KEYS[1], key)
  call('DEL', prefix .. key)
end
reply[2] = left
return reply
