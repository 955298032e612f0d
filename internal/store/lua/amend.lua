-- Changes notices of one route and shard from outside their delivery.
-- KEYS  1 shadow  2 records  3 dead  4 settled
-- ARGV  1 claim prefix  2 wake channel  3 "<shard> <route>"  4 "1" = set timers here  5 "1" = keep settled notices
--       6 operation: cancel, reschedule, fire, redrive or reopen
--       then for each notice: key, when ("+<ms>" or "=<unix ms>"), record from ',"made"' on (of reopen)
-- Reply {now us, answer…}; an answer is {before, done, in flight, record, shadow, dead, settled}
--       before: "", "scheduled", "claimed", "dead", "delivered", "cancelled"; done and in flight 0 or 1;
--       record and scores ("" = none) as they are afterwards
-- Bound the number of notices given.
--   cancel      scheduled, claimed and dead become cancelled
--   reschedule  scheduled moves
--   fire        scheduled is due now
--   redrive     dead is due now, its ladder begins anew
--   reopen      delivered by push, then refused by its consumer: scheduled again
-- Whatever else it meets stays as it is.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local op = ARGV[6]
local head = redis.call('ZRANGEBYSCORE', KEYS[1], string.format('(%.0f.99', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
head = head and tonumber(head) or math.huge
local earliest = math.huge
local reply = {t[1] * 1000000 + t[2]}

local function schedule(key, when, record)
  local due = tonumber(string.sub(when, 2))
  if string.sub(when, 1, 1) == '+' then due = now + due end
  if due < now then due = now end
  local text = string.format('%.0f', due)
  redis.call('HSET', KEYS[2], key, '{"due":' .. text .. string.sub(record, string.find(record, ',', 1, true), -1))
  if due > now then
    redis.call('ZADD', KEYS[1], text, key)
    if ARGV[4] == '1' then
      local at = string.format('%.0f', due - 1)
      -- A timer that is there keeps its value: an adopted one holds the payload.
      if redis.call('PEXPIREAT', key, at) == 0 then redis.call('SET', key, '0', 'PXAT', at) end
    end
  else
    redis.call('ZADD', KEYS[1], text .. '.5', key)
    if ARGV[4] == '1' then redis.call('DEL', key) end
  end
  if due < earliest then earliest = due end
end

for i = 7, #ARGV, 3 do
  local key, when, rest = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local record = redis.call('HGET', KEYS[2], key)
  local before, done, flight = '', 0, 0
  if record then
    if redis.call('ZSCORE', KEYS[1], key) then
      flight = redis.call('EXISTS', ARGV[1] .. key)
      before = flight == 1 and 'claimed' or 'scheduled'
    elseif redis.call('ZSCORE', KEYS[3], key) then
      before = 'dead'
    else
      local s = redis.call('ZSCORE', KEYS[4], key)
      before = s and (tonumber(s) % 1 == 0 and 'delivered' or 'cancelled') or ''
    end
  end
  if op == 'cancel' and (before == 'scheduled' or before == 'claimed' or before == 'dead') then
    redis.call('ZREM', KEYS[1], key)
    redis.call('ZREM', KEYS[3], key)
    redis.call('DEL', ARGV[1] .. key)
    if ARGV[4] == '1' then redis.call('DEL', key) end
    if ARGV[5] == '1' then
      redis.call('ZADD', KEYS[4], string.format('%.0f', now) .. '.5', key)
    else
      redis.call('HDEL', KEYS[2], key)
    end
    done = 1
  elseif (op == 'reschedule' or op == 'fire') and before == 'scheduled' then
    schedule(key, op == 'fire' and '+0' or when, record)
    done = 1
  elseif op == 'redrive' and before == 'dead' then
    redis.call('ZREM', KEYS[3], key)
    schedule(key, when, string.sub(record, 1, -2) .. ',"again":true}')
    done = 1
  elseif op == 'reopen' and before == 'delivered' then
    redis.call('ZREM', KEYS[4], key)
    schedule(key, when, '{"due":0' .. rest)
    done = 1
  end
  reply[#reply + 1] = {before, done, flight, redis.call('HGET', KEYS[2], key) or record or '',
    redis.call('ZSCORE', KEYS[1], key) or '', redis.call('ZSCORE', KEYS[3], key) or '', redis.call('ZSCORE', KEYS[4], key) or ''}
end
if earliest < head then
  redis.call('PUBLISH', ARGV[2], string.format('%.0f', earliest) .. ' ' .. ARGV[3])
end
return reply
