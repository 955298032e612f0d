-- Claims notices of one route and shard for a lease.
-- KEYS  1 shadow  2 records
-- ARGV  1 claim prefix  2 token  3 lease ms  4 at most so many bytes of records  5 grace ms
--       6 "k": the keys follow;  "o" or "n": sweep, 7 = how many, from the oldest or the newest of the overdue
-- Reply {now us, overdue left, key, answer…}; overdue left is 1 if a sweep was cut off by its bound, else 0. An answer is
--       {record, score before, lapses, score now}  won
--       0 lost to another claim   -1 stale: not pending or not due   -2 no record: dropped from the shadow
-- Bound the keys given or asked for, and ARGV[4] bytes (at least one record).
-- The score moves to the lease's end plus (1 + lapses)/1024: a claim whose holder died is found by the sweep like
-- everything else, and the fraction says how many died. Fractions from .5 on are no claims: see schedule.lua.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local mode, bytes, cut, left = ARGV[6], tonumber(ARGV[4]), false, 0
local reply = {t[1] * 1000000 + t[2], 0}
local names, scores = {}, {}
if mode == 'k' then
  for i = 7, #ARGV do names[#names + 1] = ARGV[i] end
else
  local want = tonumber(ARGV[7])
  local ripe = string.format('%.0f', now - tonumber(ARGV[5])) .. '.99'
  local due
  if mode == 'o' then
    due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ripe, 'WITHSCORES', 'LIMIT', 0, want)
  else
    due = redis.call('ZREVRANGEBYSCORE', KEYS[1], ripe, '-inf', 'WITHSCORES', 'LIMIT', 0, want)
  end
  for i = 1, #due, 2 do names[#names + 1], scores[#names] = due[i], tonumber(due[i + 1]) end
  if #names >= want then
    left = 1
  else
    -- Within the grace only what has no timer.
    local young = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ripe, string.format('%.0f', now) .. '.99',
      'WITHSCORES', 'LIMIT', 0, 4 * want)
    for i = 1, #young, 2 do
      local s = tonumber(young[i + 1])
      if #names < want and s % 1 ~= 0 then names[#names + 1], scores[#names] = young[i], s end
    end
  end
end
for i = 1, #names do
  local key = names[i]
  local score = scores[i]
  if not score then
    score = redis.call('ZSCORE', KEYS[1], key)
    score = score and tonumber(score)
  end
  local answer = -1
  if score and math.floor(score) <= now then
    if bytes <= 0 then
      left = 1
      break
    end
    if not redis.call('SET', ARGV[1] .. key, ARGV[2], 'NX', 'PX', ARGV[3]) then
      answer = 0
    else
      local record = redis.call('HGET', KEYS[2], key)
      if not record then
        redis.call('ZREM', KEYS[1], key)
        redis.call('DEL', ARGV[1] .. key)
        answer = -2
      else
        local lapses = (score % 1) * 1024
        if lapses >= 500 then lapses = 0 end
        local moved = string.format('%.17g', now + tonumber(ARGV[3]) + math.min(lapses + 1, 499) / 1024)
        redis.call('ZADD', KEYS[1], moved, key)
        bytes = bytes - #record
        answer = {record, string.format('%.17g', score), lapses, moved}
      end
    end
  end
  reply[#reply + 1] = key
  reply[#reply + 1] = answer
end
reply[2] = left
return reply
