-- Schedules notices of one shard again from the history, in the order of their numbers: see package jobs.
-- KEYS  1 the replay's progress in this shard  then for each group shadow, records, dead and settled of a prefix
--       the last: layout
-- ARGV  1 wake channel  2 shard  3 "1" = each gets a new webhook-id  4 lifetime of KEYS[1], in ms  5 number of groups
--       then for each group 2: prefix, mode of timers
--       then for each item 6: number, key, group, made, delay in ms, record's tail. Group "0" = skip the item; the tail is its result
-- Reply {now us, answer…}; an answer is
--       <due>     scheduled
--       -1        its number is not above the last one processed here: nothing was written
--       <result>  not scheduled: pending (the key has a pending or claimed notice, or a producer's timer), dead (the dead letter of
--                 another notice), cancelled (the notice was cancelled since), or the tail of a skipped item
--       The last element is {"foreign", n} if n keys with the names of notices are not the service's: see store/lua/lib/timer.lua
-- PARTS score record head cancelled order order/marks order/places order/finish clock generation epoch timer wake
-- Bound the number of items, at most 100, times the number of groups.
-- KEYS[1] is a hash: last is the number of the last item processed, and each result has a count ("sent" = scheduled). It is written
-- in the same step as the notices, so an item is processed once, by any instance and at any time.
-- A notice keeps its generation, and so its webhook-id, unless ARGV[3] is "1". The settled state under its key is deleted, even of
-- another notice: the history has it. A dead letter that holds back its successors keeps its position in its sequence.
local call, format = redis.call, string.format
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
local q = {}
for g = 1, groups do q[g] = order(KEYS[4 * g - 2], t) or false end

-- Returns the result that prevents a notice, or nil.
local function obstacle(n, key, generation)
  for g = 1, groups do
    local old = kept[g][n]
    if old then
      local same = made(old) == tonumber(generation)
      local k = 4 * g - 2
      if call('ZSCORE', KEYS[k], key) then return 'pending' end
      if call('ZSCORE', KEYS[k + 2], key) and not same then return 'dead' end
      local settled = call('ZSCORE', KEYS[k + 3], key)
      if settled and same and cancelled(settled) then return 'cancelled' end
    end
  end
end

for n = 1, count do
  local i = first + 6 * (n - 1)
  local number, key, group = tonumber(ARGV[i]), ARGV[i + 1], tonumber(ARGV[i + 2])
  local generation, delay, tail = ARGV[i + 3], tonumber(ARGV[i + 4]), ARGV[i + 5]
  local answer = -1
  if number > last then
    last = number
    local result = group == 0 and tail or written[key] and 'pending' or obstacle(n, key, generation)
    if not result and ARGV[5 + 2 * group] == '2' and redis.pcall('EXISTS', key) == 1 then result = 'pending' end
    if not result then
      local latest, position, promised = 0, nil, nil
      for g = 1, groups do
        local old = kept[g][n]
        if old then
          latest = math.max(latest, made(old))
          local k = 4 * g - 2
          call('HDEL', KEYS[k + 1], key)
          local dead = call('ZREM', KEYS[k + 2], key) == 1
          if dead and q[g] and q[g].blocks then position, promised = q[g].position(key), duein(old) end
          call('ZREM', KEYS[k + 3], key)
          if q[g] then q[g].leave(key) end
        end
      end
      if ARGV[3] == '1' then generation = format('%.0f', math.max(birth, latest + 1)) end
      local due = delay > 0 and after + delay or now
      local text = format('%.0f', due)
      local k = 4 * group - 2
      call('HSET', KEYS[k + 1], key, '{"due":' .. text .. ',"made":' .. generation .. tail)
      call('ZADD', KEYS[k], arm(ARGV[5 + 2 * group], key, due, '0') and text or text .. '.5', key)
      if q[group] and position then
        q[group].put(key, position)
      elseif q[group] then
        q[group].enter(key, promised or due, tonumber(generation), n)
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
for g = 1, groups do
  if q[g] and q[g].finish() then earliest[g] = now end
end
for group, due in pairs(earliest) do
  wake(due, KEYS[4 * group - 2], ARGV[1], ARGV[2] .. ' ' .. ARGV[4 + 2 * group])
end
if foreign > 0 then reply[#reply + 1] = {'foreign', foreign} end
return reply
