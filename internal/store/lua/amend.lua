-- Changes notices of one route and shard on request, outside an attempt.
-- KEYS  1 shadow  2 records  3 dead  4 settled
-- ARGV  1 claim prefix  2 wake channel  3 "<shard> <route>"  4 mode of timers
--       5 "1" = keep settled notices
--       6 the argument of handover.lua, "" = there is no history
--       7 operation: cancel, purge, retire, reschedule, fire, redrive, reopen, resend, readdress, settle or replace; for
--       readdress followed by the id of the data key of a newly sealed record
--       then for each notice 4: key, when and two texts.
--         when: "+<ms>" or "=<unix ms>", and " +<ms>" or " =<unix ms>" if its expiry changes; for readdress also "": the due time
--           stays; for reopen also "dead <code of the cause>" or "dead <code> <entry of the outbox of hooks>", for settle "delivered"
--           or "cancelled"
--         texts: for reopen, resend, readdress and settle the new record and the record that was read; for replace the record's tail
--           and ""; for retire, and for redrive and purge of many, the id of the bulk change or job ("" = none) and the ms of the last
--           death that it takes; for cancel by a job its id and the record that was read; else "" and ""
-- Reply {now us, answer…}; an answer is {before, done, in flight, record, shadow, dead, settled, score before}
--       before: "", "scheduled", "claimed", "dead", "delivered", "cancelled"; done and in flight 0 or 1, done -1 if it would have
--       expired when it is due, and nothing was written;
--       record and scores ("" = none) after the change; then the score in the shadow before it
--       or the error NODATAKEY: the shard does not have this key, nothing was written
--       The last element is {"foreign", n} if n keys with the names of notices are not the service's: see lib/timer.lua
-- PARTS datakeys score record head cancelled order order/marks order/places order/finish held handover clock generation successor ends
-- PARTS stamps lasting expiring replace timer disarm finalize release wake
-- Bound the number of notices.
--   cancel      scheduled, claimed and dead notices become cancelled. A job cancels a scheduled notice whose record is the one read
--   purge       dead notices become cancelled
--   retire      dead notices become cancelled, and nothing is added to the outbox
--   reschedule  a scheduled notice gets a new due time
--   fire        a scheduled notice is due now
--   redrive     a dead notice is due at the given time, its ladder starts again. A bulk change takes no notice that died after it
--               began, and none with its id in the record
--   reopen      a notice delivered by push, whose consumer reported a failure, is scheduled again or becomes dead. Nothing is written
--               if the record differs from the one read: the key has another notice, or another report came first
--   resend      a delivered or dead notice is due at the given time, with the given record. Nothing is written if the record differs
--               from the one read, or if the key has a producer's timer
--   readdress   a scheduled notice, or a dead one if its due time stays, gets the given record. Nothing is written if the record differs
--               from the one read. A held notice is released: see release.lua
--   settle      scheduled, claimed and dead notices get the outcome of their history entry. Nothing is written if the record differs
--               from the one read, and nothing is added to the outbox
--   replace     a new notice takes the place of the existing one, as in schedule.lua; nothing is written if there is none
-- In all other states a notice stays unchanged.
-- The fraction of a score that is due now. It contains the µs, above the fractions of postponed notices (score.go) and below .99. So the
-- new score differs from all earlier scores of the notice. Otherwise settle.lua (untaken), repeated in the same ms, could take the
-- claim for one that is still valid.
local part = atonce + t[2] % 1000 / 2200
local op, ids = string.match(ARGV[7], '^(%S+) ?(.*)$')
local lost = nodatakey(KEYS[1], ids)
if lost then return lost end
local hand = ARGV[6] ~= '' and handover(ARGV[6], KEYS[1], t)
local earliest, changed = math.huge, 0
local reply = {t[1] * 1000000 + t[2]}
local q = order(KEYS[1], t)

-- Gives a notice its position in its sequence. due is the time for a new position.
local function place(key, due, record)
  local position = q.position(key)
  local stays = q.blocks and (op == 'redrive' or op == 'reopen' or op == 'resend' and redis.call('ZSCORE', KEYS[3], key))
  if op == 'fire' then stays = position and tonumber(string.sub(position, 1, 11), 16) <= now end
  if stays then q.keep(key, duein(record) or due, made(record)) else q.join(key, due, made(record)) end
end

-- Returns a due time, the record with its expiry if that changes, and the expiry; nil if the notice has expired when it is due. A reported
-- notice then becomes dead at once.
local function at(when, record)
  local sign, ms, kind, till = string.match(when, '^([+=])(%d+) ?([+=]?)(%d*)$')
  local due = tonumber(ms)
  if sign == '+' and due > 0 then due = after + due end
  if due < now then due = now end
  if kind ~= '' then record = lasting(record, string.format('%.0f', till + (kind == '+' and due or 0)), op ~= 'replace') end
  till = ends(record)
  if till and tonumber(till) <= due and op ~= 'reopen' then return nil end
  return due, record, till
end

-- Schedules a notice. own is its score in the shadow, or nil if it was not pending. Returns 1, or -1 if the notice has expired when it is
-- due: then nothing is written.
local function schedule(key, when, given, own)
  local due, record, till = at(when, given)
  if not due then return -1 end
  if till then watch(KEYS[1], key, till) end
  local text = string.format('%.0f', due)
  local changed = dated(record, text, op ~= 'replace')
  if changed then redis.call('HSET', KEYS[2], key, changed) end
  local timed = arm(ARGV[4], key, due, op == 'replace' and '1' or '0', own, op == 'replace')
  redis.call('ZADD', KEYS[1], timed and text or due > now and text .. '.5' or string.format('%.17g', due + part), key)
  if q then place(key, due, record) end
  if due < earliest then earliest = due end
  return 1
end

for i = 8, #ARGV, 4 do
  local key, when = ARGV[i], ARGV[i + 1]
  local record = redis.call('HGET', KEYS[2], key) or ''
  local before, done, flight, late = '', 0, 0
  local own = redis.call('ZSCORE', KEYS[1], key)
  if own then
    flight = redis.call('EXISTS', ARGV[1] .. key)
    before = flight == 1 and 'claimed' or 'scheduled'
  elseif redis.call('ZSCORE', KEYS[3], key) then
    before = 'dead'
    local job, last = ARGV[i + 2], tonumber(ARGV[i + 3])
    late = last and (tonumber(redis.call('ZSCORE', KEYS[3], key)) >= last + 1 or string.find(record, ',"job":"' .. job .. '"', 1, true))
  else
    local s = redis.call('ZSCORE', KEYS[4], key)
    before = s and (cancelled(s) and 'cancelled' or 'delivered') or ''
  end
  local pending = before == 'scheduled' or before == 'claimed' or before == 'dead'
  local chosen = op ~= 'cancel' or string.sub(ARGV[i + 2], 1, 4) ~= 'job_' or before == 'scheduled' and record == ARGV[i + 3]
  if op == 'cancel' and pending and chosen or (op == 'purge' or op == 'retire') and before == 'dead' and not late then
    finalize(q, key, record, '.5')
    disarm(ARGV[4], key, own)
    if hand and op ~= 'retire' then hand(before == 'dead' and 'C' or 'c', key, record) end
    done = 1
  elseif (op == 'reschedule' or op == 'fire') and before == 'scheduled' then
    done = schedule(key, op == 'fire' and '+0' or when, record, own)
  elseif op == 'redrive' and before == 'dead' and not late then
    local job = ARGV[i + 2] ~= '' and ',"job":"' .. ARGV[i + 2] .. '"' or ''
    done = schedule(key, when, append(record, ',"again":true' .. job))
    if done == 1 then redis.call('ZREM', KEYS[3], key) end
  elseif op == 'reopen' and before == 'delivered' and record == ARGV[i + 3] then
    redis.call('ZREM', KEYS[4], key)
    if string.sub(when, 1, 4) == 'dead' then
      redis.call('HSET', KEYS[2], key, ARGV[i + 2])
      local code, entry = string.match(when, '^dead (%d+)(.*)$')
      redis.call('ZADD', KEYS[3], string.format('%.17g', now + code * onedeath), key)
      if q and q.blocks then place(key, now, ARGV[i + 2]) end
      if hand then hand('x', key, ARGV[i + 2]) end
      if entry ~= '' then
        redis.call('RPUSH', string.match(KEYS[1], '^(.-}:)') .. 'deaths', string.format('%.0f', reply[1]) .. entry)
      end
    else
      schedule(key, when, ARGV[i + 2])
    end
    done = 1
  elseif op == 'resend' and (before == 'delivered' or before == 'dead') and record == ARGV[i + 3]
    and not (ARGV[4] == '2' and redis.pcall('EXISTS', key) == 1) then
    done = schedule(key, when, ARGV[i + 2])
    if done == 1 then
      redis.call('ZREM', KEYS[3], key)
      redis.call('ZREM', KEYS[4], key)
    end
  elseif op == 'readdress' and (before == 'scheduled' or before == 'dead' and when == '') and record == ARGV[i + 3] then
    done = when == '' and 1 or schedule(key, when, ARGV[i + 2], own)
    if when == '' then redis.call('HSET', KEYS[2], key, ARGV[i + 2]) end
  elseif op == 'settle' and pending and record == ARGV[i + 3] then
    redis.call('HSET', KEYS[2], key, ARGV[i + 2])
    finalize(q, key, record, when == 'cancelled' and '.5' or '')
    disarm(ARGV[4], key, own)
    done = 1
  elseif op == 'replace' and before ~= '' then
    local new = '{"due":0,"made":' .. string.format('%.0f', successor(record)) .. ARGV[i + 2]
    if at(when, new) then replace(KEYS, 1, ARGV[1], key, record, q, hand) end
    done = schedule(key, when, new, own)
  end
  if done == 1 then changed = changed + 1 end
  if done == 1 and unhold(KEYS[1], key, own) and op == 'readdress' and when == '' then earliest = release(KEYS[1], {key}) end
  reply[#reply + 1] = {before, done, flight, redis.call('HGET', KEYS[2], key) or record,
    redis.call('ZSCORE', KEYS[1], key) or '', redis.call('ZSCORE', KEYS[3], key) or '', redis.call('ZSCORE', KEYS[4], key) or '', own or ''}
end
if hand then hand() end
-- A job counts in the step that changes the notices, so that the count is right whatever instance repeats a call.
if changed > 0 and (op == 'cancel' or op == 'purge' or op == 'redrive') and string.sub(ARGV[10], 1, 4) == 'job_' then
  local counts = string.match(KEYS[1], '^(.-}:)') .. 'job:' .. ARGV[10]
  redis.call('HINCRBY', counts, 'changed', changed)
  redis.call('PEXPIRE', counts, 7776000000)
end
if q and q.finish() then earliest = now end
wake(earliest, KEYS[1], ARGV[2], ARGV[3])
alarm(KEYS[1], ARGV[2], ARGV[3])
if foreign > 0 then reply[#reply + 1] = {'foreign', foreign} end
return reply
