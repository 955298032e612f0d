-- Restores dead letters and pending notices under one prefix of one shard.
-- KEYS  1 shadow  2 records  3 dead  4 settled  then the same four of each other prefix under which these notices may be stored
-- ARGV  1 claim prefix  2 wake channel  3 "<shard> <route>"  4 mode of timers
--       5 the ids of the data keys of sealed records, separated by blanks, "" = none is sealed
--       then for each notice: key, record to replace ("" = none), score of a dead letter ("" = pending), due (Unix ms),
--       number of the next attempt, record from ',"made"' on
-- Reply {now us, answer…}; an answer is
--       <due>                                     restored; a due time in the past became now
--       {record, shadow, claimed, dead, settled}  exists, nothing was written; scores or "". Under another prefix, a sixth element
--                                                 is the number of that prefix, from 1
--       or the error NODATAKEY: the shard does not have one of these keys, nothing was written
--       The last element is {"foreign", n} if n keys with the names of notices are not the service's: see lib/timer.lua
-- PARTS datakeys score record cancelled order order/marks order/places order/finish clock timer ends expiring wake
-- Bound the number of notices.
-- A cancelled notice, for example a purged one, is replaced by its dead letter if its record is the one that the caller read: the
-- letter continues that record's count of finalizations. Nothing is added to the outbox, because the history has the death already.
local call, format = redis.call, string.format
local lost = nodatakey(KEYS[1], ARGV[5])
if lost then return lost end
local earliest = math.huge
local reply = {t[1] * 1000000 + t[2]}
local q = order(KEYS[1], t)
for i = 6, #ARGV, 6 do
  local key, died, due = ARGV[i], ARGV[i + 2], tonumber(ARGV[i + 3])
  local old, k = false, 1
  for at = 1, #KEYS - 1, 4 do
    if not old then old, k = call('HGET', KEYS[at + 1], key), at end
  end
  if not old then k = 1 end
  local settled = call('ZSCORE', KEYS[k + 3], key)
  if died ~= '' and k == 1 and settled and cancelled(settled) and old == ARGV[i + 1] then
    call('ZREM', KEYS[4], key)
    old = false
  end
  if old then
    reply[#reply + 1] = {
      old, call('ZSCORE', KEYS[k], key) or '', call('EXISTS', ARGV[1] .. key),
      call('ZSCORE', KEYS[k + 2], key) or '', settled or '', k > 1 and (k - 1) / 4 or nil}
  else
    if q and (died == '' or q.blocks) then q.keep(key, due, made('{"due":0' .. ARGV[i + 5])) end
    if died ~= '' then
      call('ZREM', KEYS[1], key) -- an entry without a record
      call('ZADD', KEYS[3], died, key)
    else
      if due < now then due = now end
      local timed = arm(ARGV[4], key, due, ARGV[i + 4])
      call('ZADD', KEYS[1], format('%.0f', due) .. (timed and '' or '.5'), key)
      if due < earliest then earliest = due end
      local till = ends('{"due":0' .. ARGV[i + 5])
      if till then watch(KEYS[1], key, till) end
    end
    call('HSET', KEYS[2], key, '{"due":' .. format('%.0f', due) .. ARGV[i + 5])
    reply[#reply + 1] = due
  end
end
if q and q.finish() then earliest = now end
wake(earliest, KEYS[1], ARGV[2], ARGV[3])
alarm(KEYS[1], ARGV[2], ARGV[3])
if foreign > 0 then reply[#reply + 1] = {'foreign', foreign} end
return reply
