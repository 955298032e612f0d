-- Ends an instance: it leaves by itself, or another one declares it dead.
-- KEYS  1 signs (heartbeats)  2 about (descriptions)  3 ended
-- ARGV  1 id  2 the channel of all instances  3 the prefix of an instance's own channel, which ends with its id
--       4 the score of the last heartbeat; empty: the instance leaves by itself  5 the id of the observer
-- Reply {1} it has ended;  {0} not declared dead: it has published a later heartbeat or has a connection, or the observer has
--       no connection to this node and cannot know
-- Bound marks are kept for an hour and 1,000 of them; at most 200 are removed.
local call = redis.call
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local id, seen = ARGV[1], ARGV[4]
local word, mark = 'left', now + 0.5
if seen ~= '' then
  local score = call('ZSCORE', KEYS[1], id)
  local answer = redis.pcall('PUBSUB', 'NUMSUB', ARGV[3] .. id, ARGV[3] .. ARGV[5])
  if not score or tonumber(score) ~= tonumber(seen) or answer.err or tonumber(answer[2]) > 0 or tonumber(answer[4]) == 0 then
    return {0}
  end
  word, mark = 'gone', now
end
call('ZREM', KEYS[1], id)
call('HDEL', KEYS[2], id, id .. ' figures')
call('ZADD', KEYS[3], 'NX', string.format('%.2f', mark), id)
local old = call('ZRANGEBYSCORE', KEYS[3], '-inf', now - 3600000, 'LIMIT', 0, 100)
if #old > 0 then call('ZREM', KEYS[3], unpack(old)) end
local over = call('ZCARD', KEYS[3]) - 1000
if over > 0 then call('ZPOPMIN', KEYS[3], math.min(over, 100)) end
redis.pcall('PUBLISH', ARGV[2], word .. ' ' .. id) -- where PUBLISH is forbidden, the others see it with their next heartbeat
return {1}
