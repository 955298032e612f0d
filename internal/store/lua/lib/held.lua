-- The list of the notices of a partition that are held because their receiver is paused; added before scripts that change
-- pending notices. See package receivers. A held notice has no timer, and its score has the fraction 132/256, which is the cause
-- "paused" (store/score.go).
--   unhold(shadow, key, score)       removes a notice whose score in the shadow changes. Returns the pause, or nil if it was not held
-- Bound a few commands for each held notice, none for others.
local function unhold(shadow, key, score)
  if not score or tonumber(score) % 1 ~= paused then return nil end
  local base, route = string.match(shadow, '^(.-}:)shadow:(.+)$')
  local value = redis.call('HGET', base .. 'holds:' .. route, key)
  if not value then return nil end
  local pause = string.match(value, ' (.+)$')
  redis.call('ZREM', base .. 'held:' .. route, pause .. ' ' .. key)
  redis.call('HDEL', base .. 'holds:' .. route, key)
  return pause
end
