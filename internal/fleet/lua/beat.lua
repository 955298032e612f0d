-- Stores an instance's heartbeat and returns the heartbeats of all instances.
-- KEYS  1 signs (heartbeats)  2 about (descriptions)  3 ended  4 taps  5 the version of the paused receivers
-- ARGV  1 id  2 the channel of all instances  3 the prefix of an instance's own channel, which ends with its id
--       4 flags: 1 leaving, 2 expired events do not arrive  5 description, 6 figures; empty = keep the stored ones
--       7 return instances that ended since this ms (0 = within the last minute)
--       8… at most 64 ids whose connections are to be counted
-- Reply {now ms, answer, {connections of the caller, of each id of 8…}, {id, score, …}, {id, score, …}, {tap, …}, version}
--       answer: 1 the caller was listed, 0 it is new or its heartbeat was lost, -1 it has ended before and nothing was written.
--       The third is empty where PUBSUB NUMSUB is forbidden. The fourth are the instances that publish heartbeats, the fifth
--       the ended ones: at most 1,000 each, the latest first. The sixth are the open taps, at most 32.
-- Bound 1,000 heartbeats, 1,000 ended instances, 64 connections, 32 taps; at most 100 old entries are removed.
-- A score is the ms of the heartbeat, plus .125 if expired events do not arrive, plus .25 if the instance's own channel had a
-- subscriber then, plus .5 if it is leaving. In the third key .5 means that the instance left by itself. Heartbeats older than
-- ten minutes are removed, and so are those of the future (the clock was set back, or another server took over): an alive
-- instance publishes again at once.
local call = redis.call
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local id = ARGV[1]

local ask = {ARGV[3] .. id}
for i = 8, math.min(#ARGV, 71) do ask[#ask + 1] = ARGV[3] .. ARGV[i] end
local connections, answer = {}, redis.pcall('PUBSUB', 'NUMSUB', unpack(ask))
if not answer.err then
  for i = 2, #answer, 2 do connections[i / 2] = tonumber(answer[i]) end
end

local flags = (connections[1] or 0) > 0 and 0.25 or 0
if ARGV[4] % 2 == 1 then flags = flags + 0.5 end
if tonumber(ARGV[4]) > 1 then flags = flags + 0.125 end
local known = 1 - call('ZADD', KEYS[1], string.format('%.3f', now + flags), id)
-- depart.lua removes the heartbeat of an instance that ends, so an id that had a heartbeat has not ended.
if known == 0 and call('ZSCORE', KEYS[3], id) then
  call('ZREM', KEYS[1], id)
  return {now, -1, {}, {}, {}, {}, ''}
end
if ARGV[5] ~= '' then call('HSET', KEYS[2], id, ARGV[5]) end
if ARGV[6] ~= '' then call('HSET', KEYS[2], id .. ' figures', ARGV[6]) end
-- Where PUBLISH is forbidden, the others see it with their next heartbeat.
if known == 0 then redis.pcall('PUBLISH', ARGV[2], 'joined ' .. id) end

-- This call reads the old heartbeats too. Only if there are 1,000 newer ones, another call finds the old ones.
local all = call('ZREVRANGEBYSCORE', KEYS[1], '+inf', '-inf', 'WITHSCORES', 'LIMIT', 0, 1000)
local current, old = {}, {}
for i = 1, #all, 2 do
  local at = tonumber(all[i + 1]) or 0
  if at > now - 600000 and at < now + 10000 then
    current[#current + 1] = all[i]
    current[#current + 1] = all[i + 1]
  else
    old[#old + 1] = all[i]
  end
end
if #all == 2000 and #old == 0 then
  old = call('ZRANGEBYSCORE', KEYS[1], '-inf', now - 600000, 'LIMIT', 0, 100)
end
for i = 1, math.min(#old, 100) do
  call('ZREM', KEYS[1], old[i])
  call('HDEL', KEYS[2], old[i], old[i] .. ' figures')
end

local since = tonumber(ARGV[7])
if since < now - 60000 or since > now then since = now - 60000 end
return {now, known, connections, current,
  call('ZREVRANGEBYSCORE', KEYS[3], '+inf', string.format('%.0f', since), 'WITHSCORES', 'LIMIT', 0, 1000),
  call('ZRANGEBYSCORE', KEYS[4], string.format('%.0f', now), '+inf', 'LIMIT', 0, 32),
  call('GET', KEYS[5]) or ''}
