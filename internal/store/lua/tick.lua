-- Makes the next steps of recurring notices: stores an occurrence, and moves its definition on.
-- KEYS  1 shadow  2 records  3 dead  4 settled  then the same four of each other prefix under which occurrences may be stored
-- ARGV  1 to 6 as in schedule.lua
--       7 for each definition the id of the data key of its sealed content, "-" = it is not sealed, separated by blanks
--       then for each definition 9: its key; the state that was read; the state if the occurrence is stored; if its number is occupied;
--       if its tick is skipped because an earlier one is pending, "" = it is stored then too; when to make the following step, in Unix
--       ms, "" = never, "keep" = as before; the occurrence's key, "" = only the time changes; and the rest as in schedule.lua: "r" with
--       the due time, and record's tail. If the fifth is not "", "<tick in Unix ms> <last> <from> <to> " comes before the "r": the
--       occurrences with the number last, and with those from from to to, are the earlier ones. last is 0 if there is none, and -1
--       if an earlier one is pending in another shard
-- Reply {now us, answer…}; an answer is that of schedule.lua, or
--       "stale"    the definition has another state, nothing was written
--       "wait"     the tick is not due yet, and only then is it known whether it is skipped; or only the time has changed
--       "overlap"  the tick was skipped
--       "nokey"    the shard does not have the data key of the content, nothing was written
--       "kept"     the number is that of an occurrence for this tick, which was restored: it counts as stored
--       The last element is {"foreign", n} as in schedule.lua
-- PARTS datakeys score order order/marks order/places order/finish handover clock generation replace replace/held replace/record
-- PARTS replace/successor replace/ends epoch timer recurring wake
-- Bound the number of definitions, 33 earlier occurrences of each, and one command for each data key.
local function schedule(KEYS, ARGV)
-- SCRIPT schedule
end

local call = redis.call
local recurring = beside(KEYS[1], 'recurring')
local reply, args, places = {t[1] * 1000000 + t[2]}, {unpack(ARGV, 1, 6)}, {}
local digests = ARGV[6]
args[6], args[7] = '', '' -- the data keys are checked here
local datakeys = {}
for id in string.gmatch(ARGV[7], '%S+') do datakeys[#datakeys + 1] = id end

local function write(key, text, state) call('HSET', recurring, key, state .. string.sub(text, #statein(text) + 1)) end

-- An occurrence may be pending on the other side of a migration: see lib/elsewhere.lua.
local function pending(key, last, from, to)
  if last == '-1' then return true end
  local names = {key .. '~' .. last}
  for number = from, to do names[#names + 1] = string.format('%s~%.0f', key, number) end
  for k = 1, #KEYS - 1, 4 do
    for _, score in ipairs(call('ZMSCORE', KEYS[k], unpack(names))) do
      if score then return true end
    end
  end
  for _, there in ipairs(call('HMGET', string.sub(KEYS[#KEYS], 1, -7) .. 'elsewhere', unpack(names))) do
    if there and there ~= 'dead' and there ~= 'settled' then return true end
  end
  return false
end

-- Returns the tick in a record or tail. Only a body can contain the same text, and it comes before the tick.
local function tickin(text) return string.match(text, '.*,"tick":(%d+)') end

local function step(i, n)
  local key, was, skipped, next, occurrence, when = ARGV[i], ARGV[i + 1], ARGV[i + 4], ARGV[i + 5], ARGV[i + 6], ARGV[i + 7]
  local text = call('HGET', recurring, key)
  if statein(text) ~= was or next ~= 'keep' and not call('ZSCORE', beside(KEYS[1], 'ticks'), key) then return 'stale' end
  if occurrence == '' then
    look(KEYS[1], key, next)
    return 'wait'
  end
  if skipped ~= '' then
    local tick, last, from, to, rest = string.match(when, '^(%d+) (%-?%d+) (%d+) (%d+) (.+)$')
    when = rest
    if tonumber(tick) > now then -- an earlier occurrence may become pending until then
      look(KEYS[1], key, tick)
      return 'wait'
    end
    if pending(key, last, tonumber(from), tonumber(to)) then
      write(key, text, skipped)
      look(KEYS[1], key, next)
      return 'overlap'
    end
  end
  if datakeys[n] ~= '-' and nodatakey(KEYS[1], datakeys[n]) then return 'nokey' end
  places[#places + 1] = {n + 1, i, text}
  args[6] = args[6] .. string.sub(digests, 12 * n - 11, 12 * n)
  args[#args + 1], args[#args + 2], args[#args + 3] = occurrence, when, ARGV[i + 8]
  return nil
end

local count = 0
for i = 8, #ARGV, 9 do
  count = count + 1
  reply[count + 1] = step(i, count) or ''
end
if #places > 0 then
  local answers = schedule(KEYS, args)
  if answers.err then return answers end
  for n, place in ipairs(places) do
    local at, i, text = place[1], place[2], place[3]
    local answer = answers[n + 1]
    reply[at] = answer
    if type(answer) == 'table' and ARGV[i + 5] ~= 'keep' and answer[2] and answer[2] .. answer[4] .. answer[5] ~= '' and
      tickin(answer[1]) == tickin(ARGV[i + 8]) then
      reply[at], answer = 'kept', 0
    end
    if type(answer) == 'table' then -- the number is occupied
      write(ARGV[i], text, ARGV[i + 3])
      if ARGV[i + 5] ~= 'keep' then look(KEYS[1], ARGV[i], string.format('%.0f', now)) end
    elseif answer ~= -1 then
      write(ARGV[i], text, ARGV[i + 2])
      if ARGV[i + 5] ~= 'keep' then look(KEYS[1], ARGV[i], ARGV[i + 5]) end
    end
  end
  reply[count + 2] = answers[#places + 2]
end
announce(KEYS[1], ARGV[2], ARGV[3])
return reply
