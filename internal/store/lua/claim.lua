-- Claims notices of one route and shard for a lease.
-- KEYS  1 shadow  2 records
-- ARGV  1 claim prefix  2 token  3 lease ms  4 at most so many bytes of records  5 grace ms
--       6 "k": the keys follow;  "o" or "n": sweep, 7 = how many, from the oldest or the newest of the overdue;
--         "t": what a call with this token has claimed whose reply was lost, 7 = how many it asked for, 8 = made at most so
--         many ms ago
-- Reply {now us, overdue left, key, answer…}; overdue left is 1 if a sweep was cut off by its bound, else 0. An answer is
--       "<score before> <lapses> <score now> <record>"  won
--       0 lost to another claim   -1 stale: not pending or not due   -2 no record: dropped from the shadow
-- Bound the keys given or asked for, and ARGV[4] bytes, overshot by at most 16 records. What is cut off has no answer.
--       "t" looks at 10,000 entries at most; what it does not find comes back when its lease has lapsed.
-- The score moves to the lease's end plus (1 + lapses)/1024: a claim whose holder died is found by the sweep like
-- everything else, and the fraction says how many died. Fractions from .5 on are no claims: see schedule.lua.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local prefix, token, lease, mode, bytes, left = ARGV[1], ARGV[2], ARGV[3], ARGV[6], tonumber(ARGV[4]), 0
local reply = {t[1] * 1000000 + t[2], 0}
local names, scores = {}, {}
if mode == 't' then
  left = 0
elseif mode == 'k' then
  for i = 7, #ARGV do names[#names + 1] = ARGV[i] end
  scores = redis.call('ZMSCORE', KEYS[1], unpack(names))
else
  local want = tonumber(ARGV[7])
  local ripe = string.format('%.0f', now - tonumber(ARGV[5])) .. '.99'
  local due
  if mode == 'o' then
    due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ripe, 'WITHSCORES', 'LIMIT', 0, want)
  else
    due = redis.call('ZREVRANGEBYSCORE', KEYS[1], ripe, '-inf', 'WITHSCORES', 'LIMIT', 0, want)
  end
  for i = 1, #due, 2 do names[#names + 1], scores[#scores + 1] = due[i], due[i + 1] end
  if #names >= want then
    left = 1
  else
    -- Within the grace only what has no timer.
    local young = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ripe, string.format('%.0f', now) .. '.99',
      'WITHSCORES', 'LIMIT', 0, 4 * want)
    for i = 1, #young, 2 do
      if #names < want and string.find(young[i + 1], '.', 1, true) then
        names[#names + 1], scores[#scores + 1] = young[i], young[i + 1]
      end
    end
  end
end

local over = now + tonumber(lease)
local first = string.format('%.17g', over + 1 / 1024) -- of a claim before which none has lapsed
local moves, gone = {}, {}
local won, place, facts, ends = {}, {}, {}, {}

-- Reads the records of what was just won, some at a time, so that the bytes are known before more is claimed.
local function read()
  if #won == 0 then return end
  local records = redis.call('HMGET', KEYS[2], unpack(won))
  for j = 1, #won do
    local record, at = records[j], place[j]
    if record then
      bytes = bytes - #record
      reply[at] = facts[j] .. ends[j] .. ' ' .. record
      moves[#moves + 1] = ends[j]
      moves[#moves + 1] = won[j]
    else
      reply[at] = -2
      gone[#gone + 1] = won[j]
    end
  end
  won, place, facts, ends = {}, {}, {}, {}
end

if mode == 't' then
  local want, since = tonumber(ARGV[7]), over - tonumber(ARGV[8])
  local near = redis.call('ZRANGEBYSCORE', KEYS[1], string.format('%.0f', since), string.format('%.0f', over) .. '.49',
    'WITHSCORES', 'LIMIT', 0, 10000)
  for i = 1, #near, 2 do
    local score = tonumber(near[i + 1])
    local count = (score % 1) * 1024
    if #won < want and count > 0 and count < 500 and redis.call('GET', prefix .. near[i]) == token then
      won[#won + 1], place[#place + 1] = near[i], #reply + 2
      facts[#facts + 1] = near[i + 1] .. ' ' .. (count - 1) .. ' '
      ends[#ends + 1] = near[i + 1]
      reply[#reply + 1] = near[i]
      reply[#reply + 1] = -1
    end
  end
end
for i = 1, #names do
  local key, text = names[i], scores[i]
  local score = text and tonumber(text)
  local answer = -1
  if score and math.floor(score) <= now then
    if redis.call('SET', prefix .. key, token, 'NX', 'PX', lease) then
      local lapses = (score % 1) * 1024
      local moved = first
      if lapses >= 500 then lapses = 0 end
      if lapses > 0 then moved = string.format('%.17g', over + math.min(lapses + 1, 499) / 1024) end
      won[#won + 1], place[#place + 1] = key, #reply + 2
      facts[#facts + 1] = text .. ' ' .. lapses .. ' '
      ends[#ends + 1] = moved
    else
      answer = 0
    end
  end
  reply[#reply + 1] = key
  reply[#reply + 1] = answer
  if #won == 16 then
    read()
    if bytes <= 0 then
      if i < #names then left = 1 end
      break
    end
  end
end
read()
if #moves > 0 then redis.call('ZADD', KEYS[1], unpack(moves)) end
for _, key in ipairs(gone) do
  redis.call('ZREM', KEYS[1], key)
  redis.call('DEL', prefix .. key)
end
reply[2] = left
return reply
