-- Records the settings of routes, and returns those that differ from the record.
-- KEYS  1 the record, a hash: by route its settings, and by route and " changed" the time of the last change and the settings before it
-- ARGV  the name of each route and its settings
-- Reply {the name, the recorded settings or nothing} of each route that differs, one after the other; nothing at the first record
-- Bound a read and two writes for each route.
local t = redis.call('TIME')
local now = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
local first = redis.call('EXISTS', KEYS[1]) == 0
local changed = {}
for i = 1, #ARGV, 2 do
  local was = redis.call('HGET', KEYS[1], ARGV[i]) or ''
  if was ~= ARGV[i + 1] then
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
    if not first then
      redis.call('HSET', KEYS[1], ARGV[i] .. ' changed', now .. ' ' .. was)
      changed[#changed + 1] = ARGV[i]
      changed[#changed + 1] = was
    end
  end
end
return changed
