-- Ends claims of one route and shard.
-- KEYS  1 shadow  2 records  3 dead  4 settled  then the lists and streams that are pushed to
-- ARGV  1 claim prefix  2 wake channel  3 "<shard> <route>"  4 "1" = set timers here  5 "1" = keep settled notices
--       then for each claim 10: key, token, score now, score before (both as claim.lua gave them), made ms, operation, ms,
--       number of the coming attempt, record, push
--         operation  d delivered: record whole
--                    x dead: record whole
--                    r retry in ms: record from ',"made"' on
--                    f deferred by ms: record from ',"made"' on, or "" = as it stands but for due
--                    w handed to a consumer, whose report is awaited for ms: record whole
--         push       "" or "<n> L" / "<n> S <maxlen>": to KEYS[4+n], with the entry in the arguments that follow the ten,
--                    counted by the first of them
-- Reply {now us, answer…}: due ms of what is scheduled again, 0 for what is settled, -1 = the claim is no longer ours and
--       nothing was written, an error's text = the push was refused, nothing was written and the claim is still ours
-- Bound the number of claims given.
-- The token decides. Where the claim is gone but the score is as our claim left it or found it, nobody has claimed since
-- (the lease lapsed, or a restarted Redis forgot it): that settles as well, if it is still the same notice.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local nowtext = string.format('%.0f', now)
local head = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
head = head and tonumber(head) or math.huge
local earliest = math.huge
local reply = {t[1] * 1000000 + t[2]}
local i = 6
while i <= #ARGV do
  local key, token, score, before, made, op = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5]
  local ms, coming, record, push = tonumber(ARGV[i + 6]), ARGV[i + 7], ARGV[i + 8], ARGV[i + 9]
  i = i + 10
  local claim = ARGV[1] .. key
  local holder = redis.call('GET', claim)
  local ours = holder == token
  if not holder then
    local at = redis.call('ZSCORE', KEYS[1], key)
    if at and (tonumber(at) == tonumber(score) or tonumber(at) == tonumber(before)) then
      local kept = redis.call('HGET', KEYS[2], key)
      ours = kept and string.find(kept, '"made":' .. made .. '[,}]')
    end
  end
  local entry
  if push ~= '' then
    local n = tonumber(ARGV[i])
    entry = {}
    for j = 1, n do entry[j] = ARGV[i + j] end
    i = i + n + 1
  end
  if not ours then
    reply[#reply + 1] = -1
  else
    local answer, refused = 0, nil
    if entry then
      local n, kind, maxlen = string.match(push, '^(%d+) (%a) ?(%d*)$')
      local target = KEYS[4 + tonumber(n)]
      -- Whatever stands in the way at the target's key must not undo what the others of this call have coming.
      local done
      if kind == 'L' then
        done = redis.pcall('RPUSH', target, entry[1])
      elseif maxlen ~= '0' then
        done = redis.pcall('XADD', target, 'MAXLEN', '~', maxlen, '*', unpack(entry))
      else
        done = redis.pcall('XADD', target, '*', unpack(entry))
      end
      refused = type(done) == 'table' and done.err
    end
    if refused then
      answer = refused
    elseif op == 'd' or op == 'x' then
      redis.call('ZREM', KEYS[1], key)
      if op == 'x' then
        redis.call('HSET', KEYS[2], key, record)
        redis.call('ZADD', KEYS[3], nowtext, key)
      elseif ARGV[5] == '1' then
        redis.call('HSET', KEYS[2], key, record)
        redis.call('ZADD', KEYS[4], nowtext, key)
      else
        redis.call('HDEL', KEYS[2], key)
      end
      redis.call('DEL', claim)
    elseif op == 'w' then
      redis.call('HSET', KEYS[2], key, record)
      redis.call('SET', claim, 'report:' .. coming, 'PX', ms)
      redis.call('ZADD', KEYS[1], string.format('%.17g', now + ms + 1 / 1024), key)
    else
      local due = now + ms
      local text = string.format('%.0f', due)
      if record ~= '' then
        redis.call('HSET', KEYS[2], key, '{"due":' .. text .. record)
      else
        record = redis.call('HGET', KEYS[2], key)
        if record then
          redis.call('HSET', KEYS[2], key, '{"due":' .. text .. string.sub(record, string.find(record, ',', 8, true), -1))
        end
      end
      redis.call('DEL', claim)
      if ms > 0 then
        redis.call('ZADD', KEYS[1], text, key)
        if ARGV[4] == '1' then redis.call('SET', key, coming, 'PXAT', string.format('%.0f', due - 1)) end
      else
        redis.call('ZADD', KEYS[1], text .. '.5', key)
      end
      if due < earliest then earliest = due end
      answer = due
    end
    reply[#reply + 1] = answer
  end
end
if earliest < head then
  redis.call('PUBLISH', ARGV[2], string.format('%.0f', earliest) .. ' ' .. ARGV[3])
end
return reply
