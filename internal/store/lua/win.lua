-- Stands in front of claim.lua, sweep.lua, recover.lua and takeover.lua: how a claim call wins notices of one route and shard for a lease.
-- KEYS  1 shadow  2 records
-- ARGV  1 claim prefix  2 token  3 lease ms  4 at most so many bytes of records; those of each script follow
-- Reply {now us, left, key, answer, record…}; left is each script's own. An answer is
--       "<score before> <lapses> <score now>"  won; "-" for the score before if this token had won it already: the claim
--         was made twice, or is found again, and its lease begins anew. The record may be "": there is none
--       0 lost to another claim   -1 stale: not pending, or not yet due: then its score stands in the record's place
-- Bound ARGV[4] bytes, overshot by at most 16 records, and what each script says.
-- The score moves to the lease's end plus (1 + lapses)/1024: a claim whose holder died is found by the sweep like
-- everything else, and the fraction says how many died. Fractions from 500/1024 on are no claims: see doc.go.
local call, format, floor = redis.call, string.format, math.floor
local t = call('TIME')
local now = t[1] * 1000 + floor(t[2] / 1000)
local prefix, token, lease, bytes, left = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), 0
local reply, size = {t[1] * 1000000 + t[2], 0}, 2
local over = now + tonumber(lease)
-- The score of a claim before which none has lapsed.
local first = format('%.17g', over + 1 / 1024)
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

-- What this token has won before is won again, for a whole lease from now.
local function renew(key, lapses)
  wins = wins + 1
  won[wins], place[wins], ends[wins] = key, size + 2, format('%.17g', over + lapses / 1024)
  call('PEXPIRE', prefix .. key, lease)
  return '- ' .. (lapses - 1) .. ' ' .. ends[wins]
end

-- Tries to win each key, of which a score was read before in the same call. What is not due is won only where exact has its score and it
-- is postponed: the score of a retry, or of a new due time, has none of those fractions. Then drop is called. left is 1 if the bytes end it.
local function try(names, scores, exact, drop)
  for i = 1, #names do
    local key, text = names[i], scores[i]
    local score = text and tonumber(text)
    local lapses = score and (score % 1) * 1024
    local answer = -1
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
        if i < #names then left = 1 end
        break
      end
    end
  end
end

-- Writes the scores of all that was won.
local function done()
  read()
  if moved > 0 then call('ZADD', KEYS[1], unpack(moves)) end
  reply[2] = left
  return reply
end
