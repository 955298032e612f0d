-- The timers of notices; needs clock and score. A key is a notice's own timer if the score before the change says that the notice has a
-- timer, and the key expires 1 ms before the time in that score, whatever its value. A producer has set any other key under the name of a
-- notice, or another program has. It stays as it is, and the notice has no timer: a sweep claims it when it is due.
--   owns(mode, key, score)  reports whether the key is the timer of the notice that had this score; nil = it was not pending
--   arm(mode, key, due, value, score, anew)  sets the timer of a notice that is due at due, or moves its own, or deletes it if the notice
--     is due now. anew writes the value "1" to a timer that is moved. Returns whether the notice has one
--   foreign  how many keys arm has left alone on a route without adoption, but numbers that expire: such a key may be a timer of the
--     service that was set or deleted late
-- mode is "0" in a cluster, where timers are set by a second command (timers.go), "2" on a route with adoption, else "1".
-- Bound two commands a timer, five for a key that is not the notice's own.
local foreign = 0
local function owns(mode, key, score)
  score = mode ~= '0' and tonumber(score)
  if not score then return false end
  local due = math.floor(score)
  if score ~= due and not (score % 1 >= postponed and score % 1 < untimed) then return false end
  local at = redis.pcall('PEXPIRETIME', key)
  if type(at) ~= 'table' then return at == due - 1 end
-- A Redis before 7 has only the rest of the time.
  at = redis.pcall('PTTL', key)
  if type(at) == 'table' or at < 0 or math.abs(now + at + 1 - due) > 2 then return false end
  local value = mode == '1' and redis.pcall('GET', key)
  return not value or type(value) == 'string' and string.find(value, '^%d+$') ~= nil
end
local function arm(mode, key, due, value, score, anew)
  if due <= now then
    if owns(mode, key, score) then redis.pcall('DEL', key) end
    return false
  end
  if mode == '0' then return true end
  local at = due - 1
  local set = redis.pcall('SET', key, value, 'NX', 'PXAT', at)
  if set then return not set.err end
  if owns(mode, key, score) then
    if anew then return not redis.pcall('SET', key, '1', 'PXAT', at).err end
    return redis.pcall('PEXPIREAT', key, at) == 1
  end
  if mode == '1' then
    local found = redis.pcall('GET', key)
    if type(found) ~= 'string' or not string.find(found, '^%d+$') or redis.pcall('PTTL', key) == -1 then foreign = foreign + 1 end
  end
  return false
end
