-- Writes or deletes the definition of a recurring notice, and withdraws an occurrence of it that has not begun.
-- KEYS  1 shadow  2 records  3 dead  4 settled  then the same four of each other prefix under which the definition may be stored
-- ARGV  1 claim prefix  2 wake channel  3 "<shard> <route>"  4 mode of timers  5 "1" = keep settled notices
--       6 the argument of handover.lua, "" = there is no history
--       7 the definition's key  8 the state that was read, "" = none  9 the definition, "" = delete it
--     10 the last occurrence's key, "" = there is none
--       11 the new state  12 when to store the next occurrence, "" = never; 13 and 14 are these if the occurrence was withdrawn
--     15 the id of the data key of a newly sealed content, "" = there is none
-- Reply {now us, done, score}: done is 0 if the state is another one and nothing was written, else 1, or 2 if the occurrence was withdrawn,
--       which is then cancelled. score is that in the shadow before, "" unless withdrawn
--       or the error NODATAKEY: the shard does not have this key, nothing was written
-- PARTS datakeys score record leases order order/marks order/places order/finish held handover clock ends expiring timer disarm finalize
-- PARTS recurring stamps undefine wake
-- Bound one notice, and the prefixes.
-- An occurrence has begun when it was claimed once, or its due time was changed.
local call = redis.call
local key, definition, occurrence = ARGV[7], ARGV[9], ARGV[10]
local at, under = call('HGET', beside(KEYS[1], 'recurring'), key), 1
for k = 5, #KEYS - 1, 4 do
  local there = call('HGET', beside(KEYS[k], 'recurring'), key)
  if there and not at then at, under = there, k end
end
local reply = {t[1] * 1000000 + t[2], 0, ''}
if statein(at) ~= ARGV[8] then return reply end
local lost = nodatakey(KEYS[1], ARGV[15])
if lost then return lost end
local record = occurrence ~= '' and call('HGET', KEYS[2], occurrence)
local score = record and call('ZSCORE', KEYS[1], occurrence)
local from = 11
if score and leases(tonumber(score)) == 0 and call('EXISTS', ARGV[1] .. occurrence) == 0 and not select(2, stamps(record)) then
  from, reply[2], reply[3] = 13, 2, score
else
  reply[2] = 1
end
call('HSET', beside(KEYS[1], 'recurring'), key, ARGV[from] .. (definition ~= '' and '\n' .. definition or ''))
if under > 1 then undefine(KEYS[under], key) end
if definition == '' then
  call('ZREM', beside(KEYS[1], 'definitions'), key)
else
  call('ZADD', beside(KEYS[1], 'definitions'), 0, key)
end
look(KEYS[1], key, ARGV[from + 1])
if from == 13 then
  local q = order(KEYS[1], t)
  finalize(q, occurrence, record, '.5')
  disarm(ARGV[4], occurrence, score)
  unhold(KEYS[1], occurrence, score)
  if ARGV[6] ~= '' then
    local hand = handover(ARGV[6], KEYS[1], t)
    hand('c', occurrence, record)
    hand()
  end
  if q and q.finish() then wake(now, KEYS[1], ARGV[2], ARGV[3]) end
end
announce(KEYS[1], ARGV[2], ARGV[3])
return reply
