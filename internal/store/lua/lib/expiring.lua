-- The notices that expire: each pending or claimed one has an entry in the partition's sorted set expiring. The score is when the service
-- looks at it: when it expires, or, if it was claimed then, when that claim ends (expire.lua).
--   expiring(shadow)                returns the name of that set
--   watch(shadow, key, at)          writes the entry of a notice; at is the text of ends.lua, nil = it is not pending any more
--   alarm(shadow, channel, name)    tells the sweepers, as wake.lua does, if a new entry is the partition's first
-- Bound one command a notice that expires, two in alarm.
local soonest = math.huge
local function expiring(shadow) return (string.gsub(shadow, '}:shadow:', '}:expiring:', 1)) end
local function watch(shadow, key, at)
  if not at then
    redis.call('ZREM', expiring(shadow), key)
  else
    redis.call('ZADD', expiring(shadow), at, key)
    soonest = math.min(soonest, at)
  end
end
local function alarm(shadow, channel, name)
  if soonest == math.huge then return end
  local head = redis.call('ZRANGE', expiring(shadow), 0, 0, 'WITHSCORES')
  if tonumber(head[2]) >= soonest then redis.pcall('PUBLISH', channel, 'expires ' .. head[2] .. ' ' .. name) end
end
