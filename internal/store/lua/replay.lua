-- Schedules notices of one shard again from the history, in the order of their numbers: see package replay.
-- KEYS  1 how far the replay has got in this shard  then for each group shadow, records, dead and settled of a prefix
--       the last: layout
-- ARGV  1 wake channel  2 shard  3 "1" = each gets a new webhook-id  4 how long KEYS[1] is kept, in ms  5 number of groups
--       then for each group 2: prefix, timers ("0" = none, "1" = set them, "2" = leave alone those of producers)
--       then for each item 6: number, key, group, made, delay in ms, record's tail; where the group is "0" it is not to go,
--       and the tail says as what it is counted
-- Reply {now us, answer…}; an answer is
--       <due>     scheduled
--       -1        its number is not above the last one done here: nothing was written
--       <result>  not scheduled, and counted as that: pending (something waits under the key, or is worked on), dead (another
--                 notice's dead letter lies there), cancelled (it was, since), or what the tail said
-- Bound the number of items given, at most 100, times the number of groups.
-- KEYS[1] is a hash: last, the number of the last item done, and under each result how many had it ("sent" = scheduled). It
-- is written in the same step as the notices, so that an item is done once, whoever comes with it and however late.
-- A notice goes out as what it was: with its made, from which its webhook-id is. Of what is settled under the key, another
-- notice's too, nothing stays: the history has that.
local call, format, match = redis.call, string.format, string.match
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local after = now + (t[2] % 1000 > 0 and 1 or 0)
local birth = t[1] * 1000000 + t[2] - 1577836800000000 -- made, as schedule.lua has it
local reply = {t[1] * 1000000 + t[2]}
local last = tonumber(call('HGET', KEYS[1], 'last') or 0)
local before = last
local groups = tonumber(ARGV[5])
local first = 6 + 2 * groups
local names, count = {}, 0
for i = first, #ARGV, 6 do
  count = count + 1
  names[count] = ARGV[i + 1]
end
local kept = {}
for g = 1, groups do kept[g] = call('HMGET', KEYS[4 * g - 1], unpack(names)) end
local results, written, earliest = {}, {}, {}

-- What stands in the way of a notice, or nil.
local function way(n, key, made)
  for g = 1, groups do
    local old = kept[g][n]
    if old then
      local same = match(old, '"made":(%d+)') == made
      local k = 4 * g - 2
      if call('ZSCORE', KEYS[k], key) then return 'pending' end
      if call('ZSCORE', KEYS[k + 2], key) and not same then return 'dead' end
      local settled = call('ZSCORE', KEYS[k + 3], key)
      if settled and same and tonumber(settled) % 1 ~= 0 then return 'cancelled' end
    end
  end
end

for n = 1, count do
  local i = first + 6 * (n - 1)
  local number, key, group, made, delay, tail = tonumber(ARGV[i]), ARGV[i + 1], tonumber(ARGV[i + 2]), ARGV[i + 3], tonumber(ARGV[i + 4]), ARGV[i + 5]
  local answer = -1
  if number > last then
    last = number
    local result = group == 0 and tail or written[key] and 'pending' or way(n, key, made)
    if not result and ARGV[5 + 2 * group] == '2' and redis.pcall('EXISTS', key) == 1 then result = 'pending' end
    if not result then
      local latest = 0
      for g = 1, groups do
        local old = kept[g][n]
        if old then
          latest = math.max(latest, tonumber(match(old, '"made":(%d+)')) or 0)
          local k = 4 * g - 2
          call('HDEL', KEYS[k + 1], key)
          call('ZREM', KEYS[k + 2], key)
          call('ZREM', KEYS[k + 3], key)
        end
      end
      if ARGV[3] == '1' then made = format('%.0f', math.max(birth, latest + 1)) end
      local due = delay > 0 and after + delay or now
      local text = format('%.0f', due)
      local k = 4 * group - 2
      call('HSET', KEYS[k + 1], key, '{"due":' .. text .. ',"made":' .. made .. tail)
      if due > now then
        local armed = ARGV[5 + 2 * group] == '0' or not redis.pcall('SET', key, '0', 'PXAT', due - 1).err
        call('ZADD', KEYS[k], armed and text or text .. '.5', key)
      else
        call('ZADD', KEYS[k], text .. '.5', key)
      end
      earliest[group] = math.min(earliest[group] or due, due)
      written[key], result, answer = true, 'sent', due
    else
      answer = result
    end
    results[result] = (results[result] or 0) + 1
  end
  reply[n + 1] = answer
end
if last > before then
  call('HSET', KEYS[1], 'last', format('%.0f', last))
  for result, times in pairs(results) do call('HINCRBY', KEYS[1], result, times) end
  call('PEXPIRE', KEYS[1], ARGV[4])
end
for group, due in pairs(earliest) do
  redis.pcall('PUBLISH', ARGV[1], format('%.0f', due) .. ' ' .. ARGV[2] .. ' ' .. ARGV[4 + 2 * group])
end
return reply
