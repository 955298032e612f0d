-- Settles claims of one route and shard.
-- KEYS  1 shadow  2 records  3 dead  4 settled  then the lists and streams that entries are pushed to
-- ARGV  1 claim prefix  2 wake channel  3 "<shard> <route>"  4 mode of timers
--       5 "1" = keep settled notices; an "e" follows if one of these notices expires
--       6 the argument of handover.lua, "" = there is no history
--       7 the number of claims; then their keys; then for each claim, in that order, 4: token, operation, facts, record
--         operation  d delivered: whole record
--                    x dead: whole record
--                    h dead, on a route with a hook: whole record. A fifth argument follows, the entry of the outbox of hooks
--                      without the time
--                    r retry in ms, f deferred by ms to a new due time: record from ',"made"' on
--                    p postponed by ms, the due time stays: whole record, or "-" = unchanged
--                    k postponed by ms because the receiver is paused, without a timer: as p. A fifth argument follows, the pause
--                    w given to a consumer, whose report is awaited for ms: whole record. The claim's token becomes
--                      "report:<made ms>:<number of the attempt>", which only a report on this notice and attempt has
--                    To push an entry, "<n> L" or "<n> S <maxlen>" follows the operation: to KEYS[4+n]. The entry follows the four
--                    arguments, with the number of its arguments first
--         facts      "<score now> <score before> <made> <ms> <number of the next attempt> <cause>", with the scores of win.lua's reply.
--                    Most claims are settled without parsing them. Cause is the index of a postponed notice's cause, else 0, and
--                    half an index more unless its next attempt is the first; or the code of a dead one's. Of a notice that expires and
--                    is scheduled again, the Unix ms of that follow
-- Reply {now us, answer…}: due ms of a notice that is scheduled again, 0 for a settled one, -1 = the claim is no longer valid and
--       nothing was written, an error's text = the push was refused, nothing was written and the claim is still valid
--       then 1 if a notice is due now that has waited for one of these
--       the last element is {"foreign", n} if n keys with the names of notices are not the service's: see lib/timer.lua
-- PARTS score record order order/marks order/places order/finish held hold handover push clock timer untaken wake
-- Bound the number of claims, at most 1000: the writes are collected into a few commands.
local call, format, sub, match = redis.call, string.format, string.sub, string.match
local nowtext = format('%.0f', now)
local earliest = math.huge
local reply = {t[1] * 1000000 + t[2]}
local count, keep = tonumber(ARGV[7]), sub(ARGV[5], 1, 1) == '1'
local watched = #ARGV[5] > 1 and {} -- of the notices that expire, as in expiring.lua
local hand = ARGV[6] ~= '' and handover(ARGV[6], KEYS[1], t)
local names, claims = {}, {}
for n = 1, count do
  local key = ARGV[7 + n]
  names[n], claims[n] = key, ARGV[1] .. key
end
local holders = call('MGET', unpack(claims))
local done, drop, ends, drops = {}, {}, 0, 0
local fields, filled = {}, 0
local settled, kept = {}, 0
local moved, dead, forget = {}, {}, {}
local deaths
local q = order(KEYS[1], t)

local i = 8 + count
for n = 1, count do
  local key, token, op, facts, record = names[n], ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local ours = holders[n] == ARGV[i]
  if not holders[n] then ours = untaken(key, facts) end
  i = i + 4
  local answer, refused, death, pause = 0, nil, nil, nil
  if op == 'h' then
    op, death, i = 'x', ARGV[i], i + 1
  elseif op == 'k' then
    op, pause, i = 'p', ARGV[i], i + 1
  elseif #op > 1 then
    local which, kind, most = match(op, '^%a(%d+) (%a) ?(%d*)$')
    local size = tonumber(ARGV[i])
    if ours then refused = push(KEYS[4 + which], kind, most, i + 1, i + size) end
    op, i = sub(op, 1, 1), i + size + 1
  end
  if q and not refused and (op ~= 'w' or not ours) then q.free(key, token) end
  if refused or not ours then
    answer = refused or -1
  else
    if not holders[n] then -- Redis may have lost the claim
      unhold(KEYS[1], key, paused)
      if q then q.start(key) end
    end
    if op == 'd' or op == 'x' then
      ends = ends + 1
      done[ends] = key
      if q and not (op == 'x' and q.blocks) then q.leave(key) end
      if hand then hand(op, key, record) end
      if op == 'x' then
        dead[#dead + 1] = format('%.17g', now + match(facts, '%S+$') * onedeath)
        dead[#dead + 1] = key
        if death then
          deaths = deaths or {}
          deaths[#deaths + 1] = format('%.0f', reply[1]) .. ' ' .. death
        end
      elseif keep then
        settled[kept + 1], settled[kept + 2] = nowtext, key
        kept = kept + 2
      else
        forget[#forget + 1], record = key, '-'
      end
    else
      local before, made, ms, coming, cause, till = match(facts, '^%S+ (%S+) (%S+) (%S+) (%S+) (%S+) ?(%d*)$')
      local score = now + ms + onelease
      if op == 'w' then
        local report = 'report:' .. made .. ':' .. coming
        call('SET', claims[n], report, 'PX', ms)
        if q then q.renew(key, report, ms) end
      else
        -- The score's fraction has the cause of a postponement, and whether there is a timer: see score.go.
        answer = tonumber(ms) > 0 and after + ms or now
        if op ~= 'p' then record = '{"due":' .. format('%.0f', answer) .. record end
        -- A retry among many that are due at the same time has no timer: the events of all would delay those of first attempts.
        local crowd = op == 'r' and ARGV[4] == '1' and call('ZCOUNT', KEYS[1], answer - 5, answer + 5) >= 256
        local timed = not pause and not crowd and arm(ARGV[4], key, answer, coming, before)
        score = answer + (timed and (cause ~= '0' and postponed + cause * onelease or 0) or untimed + cause * onecause)
        if answer < earliest then earliest = answer end
        if till ~= '' then
          watched[#watched + 1], watched[#watched + 2] = till, key
          if tonumber(till) <= now then earliest = now end
        end
      end
      score = format('%.17g', score)
      moved[#moved + 1] = score
      moved[#moved + 1] = key
      if pause then hold(KEYS[1], key, pause, score) end
    end
    if op ~= 'w' then
      drops = drops + 1
      drop[drops] = claims[n]
    end
    if record ~= '-' then
      fields[filled + 1], fields[filled + 2] = key, record
      filled = filled + 2
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
if watched then
  local expiring = string.gsub(KEYS[1], '}:shadow:', '}:expiring:', 1)
  if #watched > 0 then call('ZADD', expiring, unpack(watched)) end
  if ends > 0 then call('ZREM', expiring, unpack(done)) end
end
if hand then hand() end
if deaths then call('RPUSH', match(KEYS[1], '^(.-}:)') .. 'deaths', unpack(deaths)) end
if q and q.finish() then
  earliest = now
  reply[count + 2] = 1
end
if foreign > 0 then reply[#reply + 1] = {'foreign', foreign} end
wake(earliest, KEYS[1], ARGV[2], ARGV[3])
return reply
