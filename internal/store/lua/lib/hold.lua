-- Lists held notices; needs held.
--   hold(shadow, key, pause, score)  lists a notice with the score that is written to the shadow
-- Bound a few commands.
local function hold(shadow, key, pause, score)
  local base, route = string.match(shadow, '^(.-}:)shadow:(.+)$')
  unhold(shadow, key, paused)
  redis.call('ZADD', base .. 'held:' .. route, 0, pause .. ' ' .. key)
  redis.call('HSET', base .. 'holds:' .. route, key, score .. ' ' .. pause)
end
