-- Merges what one instance observed of receivers into a route's hash.
-- KEYS  1 notifier:{health}:<route>  2 notifier:{health}day:<route>
-- ARGV  1 receivers kept  2 ms that an entry is kept after its last attempt, then of each receiver
--       its name  first failure  last failure  failures after its last success here  last success
--       last attempt  status  reason
--       hour since the epoch  attempts in it  of which failed  ms that they took  last answers
--       (times are Unix ms, 0 = none)
-- An entry is "since last_success failures last_failure last_attempt status reason"; since 0 = not failing.
-- An entry of the second hash is "hour:attempts:failed:ms,…|at status ms reason,…", 25 hours and 10 answers.
-- The field "*" is "refused hour dropped": how many found no place in that hour since the epoch, and how many
-- entries of healthy receivers were dropped for others.
-- Reply the names that found no place
-- Bound 64 receivers a call; all entries are read only if the hash is full
local call, hash, days, most, kept = redis.call, KEYS[1], KEYS[2], tonumber(ARGV[1]), tonumber(ARGV[2])
local time = call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local entry = '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S*)$'

local function read(text)
  local since, ok, n, fail, last, status, reason = string.match(text or '', entry)
  last = tonumber(last)
  if not last or last + kept < now then return nil end
  return {
    since = tonumber(since), ok = tonumber(ok), n = tonumber(n), fail = tonumber(fail), last = last, status = status, reason = reason,
  }
end

-- earliest returns the earliest time after ok, 0 = there is none.
local function earliest(ok, ...)
  local least = 0
  for _, t in ipairs({ ... }) do
    if t > ok and (least == 0 or t < least) then least = t end
  end
  return least
end

-- healthy lists the entries that may be dropped, the latest success at the front. Expired
-- entries are deleted.
local function healthy()
  local list, all = {}, call('HGETALL', hash)
  for i = 1, #all, 2 do
    if string.find(all[i], '^[*#]$') == nil then
      local e = read(all[i + 1])
      if not e then
        call('HDEL', hash, all[i])
        call('HDEL', days, all[i])
      elseif e.since == 0 then
        list[#list + 1] = { all[i], e.ok }
      end
    end
  end
  table.sort(list, function(a, b) return a[2] > b[2] end)
  return list
end

-- others counts receivers that found no place, and dropped entries.
local function others(refused, dropped)
  local hour = math.floor(now / 3600000)
  local n, at, out = string.match(call('HGET', hash, '*') or '', '^(%d+) (%d+) (%d+)$')
  if tonumber(at) ~= hour then n, out = 0, 0 end
  call('HSET', hash, '*', string.format('%.0f %.0f %.0f', tonumber(n) + refused, hour, tonumber(out) + dropped))
end

local function full() return call('HLEN', hash) - call('HEXISTS', hash, '*') - call('HEXISTS', hash, '#') >= most end

local droppable
-- room makes room for one more entry, and reports whether there is.
local function room()
  if not full() then return true end
  if not droppable then droppable = healthy() end
  if not full() then return true end
  local out = table.remove(droppable)
  if not out then return false end
  call('HDEL', hash, out[1])
  call('HDEL', days, out[1])
  others(0, 1)
  return true
end

-- day adds attempts of an hour, and their last answers, to a receiver's day.
local function day(name, hour, attempts, failed, ms, answers)
  local hours, before = string.match(call('HGET', days, name) or '', '^([^|]*)|(.*)$')
  local list, last = {}, {}
  for h, n, f, t in string.gmatch(hours or '', '(%d+):(%d+):(%d+):(%d+)') do
    h, n, f, t = tonumber(h), tonumber(n), tonumber(f), tonumber(t)
    if h == hour then attempts, failed, ms = attempts + n, failed + f, ms + t
    elseif h > hour - 25 then list[#list + 1] = string.format('%.0f:%.0f:%.0f:%.0f', h, n, f, t) end
  end
  list[#list + 1] = string.format('%.0f:%.0f:%.0f:%.0f', hour, attempts, failed, ms)
  while #list > 25 do table.remove(list, 1) end
  for answer in string.gmatch(answers .. ',' .. (before or ''), '[^,]+') do
    if #last < 10 then last[#last + 1] = answer end
  end
  call('HSET', days, name, table.concat(list, ',') .. '|' .. table.concat(last, ','))
end

local refused = {}
for i = 3, #ARGV, 13 do
  local name, first, fail, n = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  local ok, last, status, reason = tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5]), ARGV[i + 6], ARGV[i + 7]
  local had = read(call('HGET', hash, name))
  if had or fail > 0 then
    local e = had or { since = 0, ok = 0, n = 0, fail = 0, last = 0, status = '0', reason = '' }
    local success = math.max(e.ok, ok)
    local before = e.n
    if e.since == 0 or success >= e.since then before = e.fail > success and 1 or 0 end
    if success > ok and first <= success then n = fail > success and 1 or 0 end
    e.since = earliest(success, e.since, e.fail, first, fail)
    e.n = e.since > 0 and before + n or 0
    e.ok, e.fail = success, math.max(e.fail, fail)
    if last >= e.last then e.last, e.status, e.reason = last, status, reason end
    if had or room() then
      call('HSET', hash, name, string.format('%.0f %.0f %.0f %.0f %.0f %s %s', e.since, e.ok, e.n, e.fail, e.last, e.status, e.reason))
      if tonumber(ARGV[i + 9]) > 0 then
        day(name, tonumber(ARGV[i + 8]), tonumber(ARGV[i + 9]), tonumber(ARGV[i + 10]), tonumber(ARGV[i + 11]), ARGV[i + 12])
      end
    else
      others(1, 0)
      refused[#refused + 1] = name
    end
  end
end
for _, key in ipairs({ hash, days }) do
  if call('EXISTS', key) == 1 then call('PEXPIRE', key, kept) end
end
return refused
