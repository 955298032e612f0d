-- Puts dead letters back under one prefix of one shard, as they were.
-- KEYS  1 shadow  2 records  3 dead  4 settled  then the same four of each other prefix under which a notice of these keys may lie
-- ARGV  1 claim prefix, then for each notice: key, made, time of death (Unix ms), record
-- Reply {now us, answer…}; an answer is
--       1                                         it is a dead letter now
--       {record, shadow, claimed, dead, settled}  kept already, nothing written; scores or ""; if it lies under another
--                                                 prefix, a sixth says under which of them, from 1
-- Bound the number of notices given.
-- What was cancelled, as a purge does, gives way to the same notice. Nothing is handed over to history, which had the death when
-- it came about.
local call = redis.call
local t = call('TIME')
local reply = {t[1] * 1000000 + t[2]}
for i = 2, #ARGV, 4 do
  local key = ARGV[i]
  local old, k = false, 1
  for at = 1, #KEYS - 1, 4 do
    if not old then old, k = call('HGET', KEYS[at + 1], key), at end
  end
  if not old then k = 1 end
  local settled = call('ZSCORE', KEYS[k + 3], key)
  if k == 1 and settled and settled % 1 ~= 0 and old and string.find(old, '"made":' .. ARGV[i + 1] .. '[,}]') then
    call('ZREM', KEYS[4], key)
    old = false
  end
  if old then
    reply[#reply + 1] = {
      old, call('ZSCORE', KEYS[k], key) or '', call('EXISTS', ARGV[1] .. key),
      call('ZSCORE', KEYS[k + 2], key) or '', settled or '', k > 1 and (k - 1) / 4 or nil}
  else
    call('HSET', KEYS[2], key, ARGV[i + 3])
    call('ZADD', KEYS[3], ARGV[i + 2], key)
    reply[#reply + 1] = 1
  end
end
return reply
