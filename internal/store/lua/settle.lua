-- Ends claims of one route and shard.
-- KEYS  1 shadow  2 records  3 dead  4 settled  then the lists and streams that are pushed to
-- ARGV  1 claim prefix  2 wake channel  3 "<shard> <route>"  4 "1" = set timers here  5 "1" = keep settled notices
--       6 how many claims; then their keys; then for each claim, in that order, 9: token, score now, score before (both as
--       claim.lua gave them), made ms, operation, ms, number of the coming attempt, record, push
--         operation  d delivered: record whole
--                    x dead: record whole
--                    r retry in ms: record from ',"made"' on
--                    f deferred by ms: record from ',"made"' on, or "" = as it stands but for due
--                    w handed to a consumer, whose report is awaited for ms: record whole
--         push       "" or "<n> L" / "<n> S <maxlen>": to KEYS[4+n], with the entry in the arguments that follow the nine,
--                    counted by the first of them
-- Reply {now us, answer…}: due ms of what is scheduled again, 0 for what is settled, -1 = the claim is no longer ours and
--       nothing was written, an error's text = the push was refused, nothing was written and the claim is still ours
-- Bound the number of claims given, at most 1000: what is written is gathered into a few commands.
-- The token decides. Where the claim is gone but the score is as our claim left it or found it, nobody has claimed since
-- (the lease lapsed, or a restarted Redis forgot it): that settles as well, if it is still the same notice.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local nowtext = string.format('%.0f', now)
local head, earliest = nil, math.huge
local reply = {t[1] * 1000000 + t[2]}
local count = tonumber(ARGV[6])
local names, claims = {}, {}
for n = 1, count do
  names[n] = ARGV[6 + n]
  claims[n] = ARGV[1] .. names[n]
end
local holders = redis.call('MGET', unpack(claims))
local done, drop, fields, moved, settled, dead, forget = {}, {}, {}, {}, {}, {}, {}

local function again(key, ms, coming)
  local due = now + ms
  local text = string.format('%.0f', due)
  if ms > 0 then
    moved[#moved + 1] = text
    if ARGV[4] == '1' then redis.call('SET', key, coming, 'PXAT', string.format('%.0f', due - 1)) end
  else
    moved[#moved + 1] = text .. '.5'
  end
  moved[#moved + 1] = key
  if due < earliest then earliest = due end
  return due, text
end

local i = 7 + count
for n = 1, count do
  local key, token, score, before, made, op = names[n], ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local ms, coming, record, push = tonumber(ARGV[i + 5]), ARGV[i + 6], ARGV[i + 7], ARGV[i + 8]
  i = i + 9
  local ours = holders[n] == token
  if not holders[n] then
    local at = redis.call('ZSCORE', KEYS[1], key)
    if at and (tonumber(at) == tonumber(score) or tonumber(at) == tonumber(before)) then
      local kept = redis.call('HGET', KEYS[2], key)
      ours = kept and string.find(kept, '"made":' .. made .. '[,}]')
    end
  end
  local entry
  if push ~= '' then
    local size = tonumber(ARGV[i])
    entry = {}
    for j = 1, size do entry[j] = ARGV[i + j] end
    i = i + size + 1
  end
  local answer, refused = 0, nil
  if not ours then
    answer = -1
  elseif entry then
    local which, kind, maxlen = string.match(push, '^(%d+) (%a) ?(%d*)$')
    local target = KEYS[4 + tonumber(which)]
    -- Whatever stands in the way at the target's key must not undo what the others of this call have coming.
    local pushed
    if kind == 'L' then
      pushed = redis.pcall('RPUSH', target, entry[1])
    elseif maxlen ~= '0' then
      pushed = redis.pcall('XADD', target, 'MAXLEN', '~', maxlen, '*', unpack(entry))
    else
      pushed = redis.pcall('XADD', target, '*', unpack(entry))
    end
    refused = type(pushed) == 'table' and pushed.err
  end
  if refused then
    answer = refused
  elseif ours then
    if op ~= 'w' then drop[#drop + 1] = claims[n] end
    if op == 'd' or op == 'x' then
      done[#done + 1] = key
      local to = op == 'x' and dead or settled
      if op == 'x' or ARGV[5] == '1' then
        fields[#fields + 1] = key
        fields[#fields + 1] = record
        to[#to + 1] = nowtext
        to[#to + 1] = key
      else
        forget[#forget + 1] = key
      end
    elseif op == 'w' then
      fields[#fields + 1] = key
      fields[#fields + 1] = record
      redis.call('SET', claims[n], 'report:' .. coming, 'PX', ms)
      moved[#moved + 1] = string.format('%.17g', now + ms + 1 / 1024)
      moved[#moved + 1] = key
    else
      if record == '' then
        record = redis.call('HGET', KEYS[2], key)
        record = record and string.sub(record, string.find(record, ',', 8, true), -1)
      end
      if record then
        if not head then
          head = redis.call('ZRANGEBYSCORE', KEYS[1], string.format('(%.0f.99', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
          head = head and tonumber(head) or math.huge
        end
        local text
        answer, text = again(key, ms, coming)
        fields[#fields + 1] = key
        fields[#fields + 1] = '{"due":' .. text .. record
      end
    end
  end
  reply[#reply + 1] = answer
end
if #fields > 0 then redis.call('HSET', KEYS[2], unpack(fields)) end
if #forget > 0 then redis.call('HDEL', KEYS[2], unpack(forget)) end
if #moved > 0 then redis.call('ZADD', KEYS[1], unpack(moved)) end
if #settled > 0 then redis.call('ZADD', KEYS[4], unpack(settled)) end
if #dead > 0 then redis.call('ZADD', KEYS[3], unpack(dead)) end
if #done > 0 then redis.call('ZREM', KEYS[1], unpack(done)) end
if #drop > 0 then redis.call('DEL', unpack(drop)) end
if head and earliest < head then
  redis.call('PUBLISH', ARGV[2], string.format('%.0f', earliest) .. ' ' .. ARGV[3])
end
return reply
