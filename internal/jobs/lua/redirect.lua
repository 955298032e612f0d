-- Writes the new records of pending notices of one prefix and shard for a redirect: see package jobs.
-- KEYS  1 the redirect's count in this shard  2 shadow  3 records  the last: layout
-- ARGV  1 claim prefix  2 lifetime of KEYS[1], in ms  3 wake channel  4 "<shard> <route>"
--       then for each notice 3: key, record that was read, new record
-- Reply for each notice 1: written; 0: claimed, or its record differs from the one that was read; -1: not pending here
-- PARTS score clock held release wake
-- Bound the number of notices, at most 200.
-- A held notice waits for its old receiver. It is released with its new record, so that its next claim looks at the new receiver.
-- The count is written in the same step as the records, so that it is right whatever instance repeats a call.
local reply, written, freed = {}, 0, {}
for i = 5, #ARGV, 3 do
  local key, answer = ARGV[i], 0
  local score = redis.call('ZSCORE', KEYS[2], key)
  if not score then
    answer = -1
  elseif redis.call('EXISTS', ARGV[1] .. key) == 0 and redis.call('HGET', KEYS[3], key) == ARGV[i + 1] then
    redis.call('HSET', KEYS[3], key, ARGV[i + 2])
    answer, written = 1, written + 1
    if unhold(KEYS[2], key, score) then freed[#freed + 1] = key end
  end
  reply[#reply + 1] = answer
end
if written > 0 then
  redis.call('HINCRBY', KEYS[1], 'changed', written)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
wake(release(KEYS[2], freed), KEYS[2], ARGV[3], ARGV[4])
return reply
