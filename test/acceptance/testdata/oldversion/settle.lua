-- Ends claims of one route and shard.
-- KEYS  1 shadow  2 records  3 dead  4 settled  then the lists and streams that are pushed to
-- ARGV  1 claim prefix  2 wake channel  3 "<shard> <route>"  4 "1" = set timers here  5 "1" = keep settled notices
--       6 how many claims; then their keys; then for each claim, in that order, 4: token, operation, facts, record
--         operation  d delivered: record whole
--                    x dead: record whole
--                    r retry in ms: record from ',"made"' on
--                    f deferred by ms: record from ',"made"' on, or "" = as it stands but for due
--                    w handed to a consumer, whose report is awaited for ms: record whole
--                    and after it, if there is something to push, "<n> L" or "<n> S <maxlen>": to KEYS[4+n], with the entry in
--                    the arguments that follow the four, counted by the first of them
--         facts      "<score now> <score before> <made ms> <ms> <number of the coming attempt>", the scores as claim.lua gave
--                    them; most claims end without a look at them
-- Reply {now us, answer…}: due ms of what is scheduled again, 0 for what is settled, -1 = the claim is no longer ours and
--       nothing was written, an error's text = the push was refused, nothing was written and the claim is still ours
-- Bound the number of claims given, at most 1000: what is written is gathered into a few commands.
-- The token decides. Where the claim is gone but the score is as our claim left it or found it, nobody has claimed since
-- (the lease lapsed, or a restarted Redis forgot it): that settles as well, if it is still the same notice.
local call, format, sub, match = redis.call, string.format, string.sub, string.match
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local nowtext = format('%.0f', now)
local head, earliest = nil, math.huge
local reply = {t[1] * 1000000 + t[2]}
local count, keep = tonumber(ARGV[6]), ARGV[5] == '1'
local names, claims = {}, {}
for n = 1, count do
  local key = ARGV[6 + n]
  names[n], claims[n] = key, ARGV[1] .. key
end
local holders = call('MGET', unpack(claims))
local done, drop, ends, drops = {}, {}, 0, 0
local fields, filled = {}, 0
local settled, kept = {}, 0
local moved, dead, forget = {}, {}, {}

-- From the next whole ms: a step is never short.
local after = now + (t[2] % 1000 > 0 and 1 or 0)

local function again(key, ms, coming)
  local due = ms > 0 and after + ms or now
  local text = format('%.0f', due)
  if ms > 0 then
    moved[#moved + 1] = text
    if ARGV[4] == '1' then call('SET', key, coming, 'PXAT', due - 1) end
  else
    moved[#moved + 1] = text .. '.5'
  end
  moved[#moved + 1] = key
  if due < earliest then earliest = due end
  return due, text
end

-- Nobody has claimed since we did: the claim is gone, but the score is as we left it or found it, of the same notice.
local function untaken(key, facts)
  local score, before, made = match(facts, '^(%S+) (%S+) (%S+)')
  local at = call('ZSCORE', KEYS[1], key)
  if at and (tonumber(at) == tonumber(score) or tonumber(at) == tonumber(before)) then
    local record = call('HGET', KEYS[2], key)
    return record and string.find(record, '"made":' .. made .. '[,}]')
  end
end

-- Whatever stands in the way at the target's key must not undo what the others of this call have coming.
local function push(to, entry)
  local which, kind, maxlen = match(to, '^(%d+) (%a) ?(%d*)$')
  local target = KEYS[4 + tonumber(which)]
  local pushed
  if kind == 'L' then
    pushed = redis.pcall('RPUSH', target, entry[1])
  elseif maxlen ~= '0' then
    pushed = redis.pcall('XADD', target, 'MAXLEN', '~', maxlen, '*', unpack(entry))
  else
    pushed = redis.pcall('XADD', target, '*', unpack(entry))
  end
  return type(pushed) == 'table' and pushed.err
end

local i = 7 + count
for n = 1, count do
  local key, op, facts, record = names[n], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local ours = holders[n] == ARGV[i]
  if not holders[n] then ours = untaken(key, facts) end
  i = i + 4
  local refused
  if #op > 1 then
    local size = tonumber(ARGV[i])
    local entry = {}
    for j = 1, size do entry[j] = ARGV[i + j] end
    i = i + size + 1
    if ours then refused = push(sub(op, 2), entry) end
    op = sub(op, 1, 1)
  end
  local answer = 0
  if not ours then
    answer = -1
  elseif refused then
    answer = refused
  else
    if op ~= 'w' then
      drops = drops + 1
      drop[drops] = claims[n]
    end
    if op == 'd' or op == 'x' then
      ends = ends + 1
      done[ends] = key
      if op == 'x' then
        dead[#dead + 1] = nowtext
        dead[#dead + 1] = key
      elseif keep then
        settled[kept + 1], settled[kept + 2] = nowtext, key
        kept = kept + 2
      end
      if op == 'x' or keep then
        fields[filled + 1], fields[filled + 2] = key, record
        filled = filled + 2
      else
        forget[#forget + 1] = key
      end
    else
      local ms, coming = match(facts, '(%S+) (%S+)$')
      ms = tonumber(ms)
      if op == 'w' then
        fields[filled + 1], fields[filled + 2] = key, record
        filled = filled + 2
        call('SET', claims[n], 'report:' .. coming, 'PX', ms)
        moved[#moved + 1] = format('%.17g', now + ms + 1 / 1024)
        moved[#moved + 1] = key
      else
        if record == '' then
          record = call('HGET', KEYS[2], key)
          record = record and sub(record, string.find(record, ',', 8, true), -1)
        end
        if record then
          if not head then
            head = call('ZRANGEBYSCORE', KEYS[1], '(' .. nowtext .. '.99', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
            head = head and tonumber(head) or math.huge
          end
          local text
          answer, text = again(key, ms, coming)
          fields[filled + 1], fields[filled + 2] = key, '{"due":' .. text .. record
          filled = filled + 2
        end
      end
    end
  end
  reply[n + 1] = answer
end
if filled > 0 then call('HSET', KEYS[2], unpack(fields)) end
if #forget > 0 then call('HDEL', KEYS[2], unpack(forget)) end
if #moved > 0 then call('ZADD', KEYS[1], unpack(moved)) end
if kept > 0 then call('ZADD', KEYS[4], unpack(settled)) end
if #dead > 0 then call('ZADD', KEYS[3], unpack(dead)) end
if ends > 0 then call('ZREM', KEYS[1], unpack(done)) end
if drops > 0 then call('DEL', unpack(drop)) end
if head and earliest < head then
  call('PUBLISH', ARGV[2], format('%.0f', earliest) .. ' ' .. ARGV[3])
end
return reply
