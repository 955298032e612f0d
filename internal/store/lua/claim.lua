-- Claims notices of one route and shard for a lease.
-- KEYS  1 shadow  2 records
-- ARGV  1 claim prefix  2 token  3 lease ms  4 at most so many bytes of records  5 grace ms
--       6 "k": the keys follow;  "p": postponed notices, also before they are due:
--         7 = "1": their timers are deleted, "2": unless a producer has set them, "0": they are at other nodes, then for each
--         key and score, which must be the one that it has;  "o" or "n": sweep, 7 = how many, from the oldest or the newest of the overdue;
--         "t": what a call with this token has claimed whose reply was lost, those first whose lease ends first, 7 = how many,
--         8 = made at most so many ms ago;  "d": what an instance that is dead has claimed, 7 = how many, 8 = what its tokens begin with,
--         9 = the longest lease it may have, in ms, 10 = where to go on: "" at first, then what was replied
-- Reply {now us, left, key, answer, record…}; left is 1 if a sweep was cut off by its bound, else 0; of "d" where to go on,
--       or "" if that was all. An answer is
--       "<score before> <lapses> <score now>"  won; "-" for the score before if this token had won it already: the claim
--         was made twice, or is found again, and its lease begins anew. The record may be "": there is none
--       0 lost to another claim   -1 stale: not pending, or not yet due: then its score stands in the record's place
-- Bound the keys given or asked for, and ARGV[4] bytes, overshot by at most 16 records. What is cut off has no answer.
--       "t" looks at 10,000 entries at most; what it does not find comes back when its lease has lapsed. "d" looks at 1,000.
-- "d" wins what is claimed: the token is overwritten, as one that has lapsed would be, only sooner. A notice that awaits its
-- consumer's report has a token of another form, and is nobody's claim.
-- The score moves to the lease's end plus (1 + lapses)/1024: a claim whose holder died is found by the sweep like
-- everything else, and the fraction says how many died. Fractions from 500/1024 on are no claims: see doc.go.
local call, format, floor = redis.call, string.format, math.floor
local t = call('TIME')
local now = t[1] * 1000 + floor(t[2] / 1000)
local prefix, token, lease, mode, bytes, left = ARGV[1], ARGV[2], ARGV[3], ARGV[6], tonumber(ARGV[4]), 0
local reply, size = {t[1] * 1000000 + t[2], 0}, 2
local names, scores, count = {}, {}, 0
local exact = {} -- of postponed notices, by number
if mode == 'k' then
  for i = 7, #ARGV do
    count = count + 1
    names[count] = ARGV[i]
  end
  scores = call('ZMSCORE', KEYS[1], unpack(names))
elseif mode == 'p' then
  for i = 8, #ARGV, 2 do
    count = count + 1
    names[count], exact[count] = ARGV[i], tonumber(ARGV[i + 1])
  end
  scores = call('ZMSCORE', KEYS[1], unpack(names))
elseif mode == 'o' or mode == 'n' then
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
      local part = tonumber(young[i + 1]) % 1 * 1024
      if count < want and part > 0 and (part < 500 or part >= 512) then
        count = count + 1
        names[count], scores[count] = young[i], young[i + 1]
      end
    end
  end
end

local over = now + tonumber(lease)
local first = format('%.17g', over + 1 / 1024) -- of a claim before which none has lapsed
local plain = ' 0 ' .. first
local moves, moved = {}, 0
local won, place, ends, wins = {}, {}, {}, 0

-- Reads the records of what was just won, some at a time, so that the bytes are known before more is claimed.
local function read()
  if wins == 0 then return end
  local records = call('HMGET', KEYS[2], unpack(won))
  for j = 1, wins do
    local record = records[j] or ''
    bytes = bytes - #record
    reply[place[j] + 1] = record
    moves[moved + 1], moves[moved + 2] = ends[j], won[j]
    moved = moved + 2
  end
  won, place, ends, wins = {}, {}, {}, 0
end

-- Deletes the timer of a notice that is claimed before it expires.
local function drop(key, score)
  if ARGV[7] == '1' then
    redis.pcall('DEL', key)
  elseif ARGV[7] == '2' then
    local left = redis.pcall('PTTL', key)
    if type(left) == 'number' and math.abs(now + left + 1 - floor(score)) <= 2 then redis.pcall('DEL', key) end
  end
end

-- What this token has won before is won again, for a whole lease from now.
local function renew(key, lapses)
  wins = wins + 1
  won[wins], place[wins], ends[wins] = key, size + 2, format('%.17g', over + lapses / 1024)
  call('PEXPIRE', prefix .. key, lease)
  return '- ' .. (lapses - 1) .. ' ' .. ends[wins]
end

if mode == 't' then
  local want, since = tonumber(ARGV[7]), over - tonumber(ARGV[8])
  local near = call('ZRANGEBYSCORE', KEYS[1], format('%.0f', since), format('%.0f', over) .. '.49',
    'WITHSCORES', 'LIMIT', 0, 10000)
  for i = 1, #near, 2 do
    local score = tonumber(near[i + 1])
    local lapses = (score % 1) * 1024
    if wins < want and lapses > 0 and lapses < 500 and call('GET', prefix .. near[i]) == token then
      reply[size + 1], reply[size + 2], reply[size + 3] = near[i], renew(near[i], lapses), ''
      size = size + 3
    end
  end
end
if mode == 'd' then
  local want, whose = tonumber(ARGV[7]), ARGV[8]
  local from, skip = string.match(ARGV[10], '^(%S+) (%d+)$')
  local page = call('ZRANGEBYSCORE', KEYS[1], from or format('(%.0f.99', now), format('%.0f', now + tonumber(ARGV[9])) .. '.99',
    'WITHSCORES', 'LIMIT', skip or 0, 1000)
  local mine, claims = {}, {}
  for i = 1, #page, 2 do
    local lapses = (tonumber(page[i + 1]) % 1) * 1024
    if lapses > 0 and lapses < 500 then
      mine[#mine + 1], claims[#claims + 1] = i, prefix .. page[i]
    end
  end
  local holders = #claims > 0 and call('MGET', unpack(claims)) or {}
  local last, stopped = page[#page], false
  local taken = {} -- by score: these stand there no more
  for j = 1, #mine do
    local holder = holders[j]
    if holder and string.sub(holder, 1, #whose) == whose then
      local key, text = page[mine[j]], page[mine[j] + 1]
      if count >= want or bytes <= 0 then
        last, stopped = text, true
        break
      end
      local lapses = (tonumber(text) % 1) * 1024
      count, wins = count + 1, wins + 1
      won[wins], place[wins] = key, size + 2
      ends[wins] = format('%.17g', over + math.min(lapses + 1, 499) / 1024)
      call('SET', claims[j], token, 'PX', lease)
      reply[size + 1], reply[size + 2], reply[size + 3] = key, text .. ' ' .. lapses .. ' ' .. ends[wins], ''
      size = size + 3
      taken[text] = (taken[text] or 0) + 1
      if wins == 16 then read() end
    end
  end
  count = 0
  left = ''
  if stopped then
    left = last .. ' 0'
  elseif #page == 2000 then
    local lapses = (tonumber(last) % 1) * 1024
    if lapses == 0 or lapses >= 500 then
      left = '(' .. last .. ' 0' -- no claim has this score
    elseif page[2] ~= last then
      left = last .. ' 0'
    else
      left = last .. ' ' .. (from == last and tonumber(skip) or 0) + 1000 - (taken[last] or 0)
    end
  end
end
for i = 1, count do
  local key, text = names[i], scores[i]
  local score = text and tonumber(text)
  local lapses = score and (score % 1) * 1024
  local answer = -1
  -- The score of a retry, or of a new due time, has none of these fractions.
  local early = score and score == exact[i] and lapses > 500 and lapses < 512
  if score and (early or floor(score) <= now) and call('SET', prefix .. key, token, 'NX', 'PX', lease) then
    wins = wins + 1
    won[wins], place[wins] = key, size + 2
    if early then drop(key, score) end
    if lapses == 0 or lapses >= 500 then
      ends[wins], answer = first, text .. plain
    else
      ends[wins] = format('%.17g', over + math.min(lapses + 1, 499) / 1024)
      answer = text .. ' ' .. lapses .. ' ' .. ends[wins]
    end
  elseif score and lapses > 0 and lapses < 500 and call('GET', prefix .. key) == token then
    answer = renew(key, lapses)
  elseif score and floor(score) <= now then
    answer = 0
  end
  reply[size + 1], reply[size + 2], reply[size + 3] = key, answer, answer == -1 and text or ''
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
reply[2] = left
return reply
