-- Turns plain timers under one prefix of one shard into notices, and applies their owners' later changes.
-- KEYS  1 shadow  2 records  3 dead  4 settled  then the records of each other prefix under which such a notice may be stored
--       the last: layout
-- ARGV  1 claim prefix  2 wake channel  3 "<shard> <route>"  4 "0" = do not check the timers again (in a cluster)
--       5 "1" = keep settled notices
--       6 the argument of handover.lua, "" = there is no history
--       then for each key 7: key, operation, digest, expire, shadow, made, tail of the record
--         operation  a  a new notice, due when the timer has expired; replaces an older notice
--                    m  the pending notice moves to the timer's expiry
--                    c  the pending notice is cancelled
--         digest     SHA-1 of the timer's value, "L<bytes>" of one too long to be read, "" = there is no timer, "T" = a key of
--                    another type
--         expire     Unix ms of the timer in peek.lua's reply
--         shadow     score in peek.lua's reply, "" = not pending
--         made       generation of the notice in peek.lua's reply, 0 = none
--         tail       of m: when the notice expires now, in Unix ms, "" = never
-- Reply {now us, answer…}: 1 done, 0 = timer or notice have changed since peek.lua: check again
--       or the error CLOCK <Unix s> of store/lua/lib/epoch.lua
-- PARTS score record head order order/marks order/places order/finish held handover clock generation successor ends stamps
-- PARTS lasting expiring replace epoch finalize wake
-- Bound the number of keys.
-- A timer that has expired since peek.lua is adopted with the value read then. If its event came first, the notice of that event has
-- no body. Its body is added, unless the notice is claimed.
local earliest = math.huge
local reply = {t[1] * 1000000 + t[2]}
local q = order(KEYS[1], t)
local hand = ARGV[6] ~= '' and handover(ARGV[6], KEYS[1], t)
for i = 7, #ARGV, 7 do
  local key, op, digest, expire = ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3])
  local seen, generation, tail = ARGV[i + 4], tonumber(ARGV[i + 5]), ARGV[i + 6]
  local score = redis.call('ZSCORE', KEYS[1], key)
  local old = redis.call('HGET', KEYS[2], key)
  local gone = false
  local ok, filled = (score or '') == seen and made(old) == generation, false
  if ARGV[4] ~= '0' then
    local size = redis.pcall('STRLEN', key)
    if type(size) == 'table' then
      ok = ok and digest == 'T'
    elseif size == 0 and redis.call('EXISTS', key) == 0 then
      gone = expire > 0 and now > expire
      ok = ok and (digest == '' or op == 'a' and gone)
    else
      local at = redis.pcall('PEXPIRETIME', key)
      if type(at) == 'table' then
        at = redis.call('PTTL', key)
        if at >= 0 then at = now + at end
        if math.abs(at - expire) <= 2 then at = expire end
      end
      ok = ok and at == expire and ('L' .. size == digest or redis.sha1hex(redis.call('GET', key)) == digest)
    end
  end
  if not ok and op == 'a' and gone and old and string.find(old, ',"lost":true}', 1, true) and score and
    redis.call('EXISTS', ARGV[1] .. key) == 0 then
    ok, filled = true, true
  end
  for k = 5, #KEYS - 1 do
    ok = ok and not (op == 'a' and not old and redis.call('HEXISTS', KEYS[k], key) == 1)
  end
  if ok then
    unhold(KEYS[1], key, score)
    local due = expire + 1
    local text = string.format('%.0f', due)
    if q and op ~= 'c' then q.join(key, due, op == 'a' and successor(old) or made(old)) end
    if op == 'a' then
      replace(KEYS, 1, ARGV[1], key, old, nil, old and not filled and hand)
      redis.call('HSET', KEYS[2], key, '{"due":' .. text .. ',"made":' .. string.format('%.0f', successor(old)) .. tail)
    elseif op == 'm' then
      if tail ~= '' then old = lasting(old or '', tail) end
      local changed = dated(old or '', text, true)
      if changed then redis.call('HSET', KEYS[2], key, changed) end
    else
      finalize(q, key, old, '.5')
      if hand then hand('c', key, old or '') end
    end
    if op ~= 'c' then
      if due <= now then text = text .. '.5' end
      redis.call('ZADD', KEYS[1], text, key)
      local till = ends(op == 'a' and '{"due":0,"made":0' .. tail or old)
      if till then watch(KEYS[1], key, till) end
      if due < earliest then earliest = due end
    end
  end
  reply[#reply + 1] = ok and 1 or 0
end
if hand then hand() end
if q and q.finish() then earliest = now end
wake(earliest, KEYS[1], ARGV[2], ARGV[3])
alarm(KEYS[1], ARGV[2], ARGV[3])
return reply
