-- Moves notices from a prefix that the configuration no longer has to the route that now covers their keys.
-- KEYS  1 shadow  2 records  3 dead  4 settled of the old prefix  5–8 the same of the new
-- ARGV  1 claim prefix, then the keys
-- Reply how many were moved. What is claimed stays for a later call: its holder settles it where it stands.
-- Bound the keys given.
local moved = 0
for i = 2, #ARGV do
  local key = ARGV[i]
  if redis.call('EXISTS', ARGV[1] .. key) == 0 then
    local record = redis.call('HGET', KEYS[2], key)
    for z = 1, 4 do
      if z ~= 2 then
        local score = redis.call('ZSCORE', KEYS[z], key)
        if score then
          redis.call('ZREM', KEYS[z], key)
          if record and redis.call('HEXISTS', KEYS[6], key) == 0 then redis.call('ZADD', KEYS[4 + z], score, key) end
        end
      end
    end
    if record then
      redis.call('HDEL', KEYS[2], key)
      redis.call('HSETNX', KEYS[6], key, record)
    end
    moved = moved + 1
  end
end
return moved
