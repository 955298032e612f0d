-- Moves notices of one shard from a prefix to the one that covers their keys now.
-- KEYS  1 shadow  2 records  3 dead  4 settled of the old prefix  5–8 the same of the new
-- ARGV  1 claim prefix, then for each notice 2: key, operation
--         ""                       move, unless the new prefix has a notice of that key
--         "d <made old> <made new>"  drop the old prefix's: the new one has the same, and is further on
--         "r <made old> <made new>"  the old prefix's takes the place of the new one's
-- Reply {moved, key…}: how many are gone from the old prefix; then the keys of those that stay because the new prefix has
--       a notice of that key. d and r do nothing unless both are what they name. What is claimed stays for a later call: its
--       holder settles it where it stands.
-- Bound the keys given.
local moved, reply = 0, {0}
for i = 2, #ARGV, 2 do
  local key, op, from, to = ARGV[i], string.match(ARGV[i + 1], '^(%a?) ?(%d*) ?(%d*)$')
  if redis.call('EXISTS', ARGV[1] .. key) == 0 then
    local record, other = redis.call('HGET', KEYS[2], key), redis.call('HGET', KEYS[6], key)
    local go = true
    if op ~= '' then
      go = record and other and string.match(record, '"made":(%d+)') == from and string.match(other, '"made":(%d+)') == to
    elseif record and other then
      go = false
      reply[#reply + 1] = key
    end
    if go then
      if op == 'r' then
        for z = 5, 8 do
          if z ~= 6 then redis.call('ZREM', KEYS[z], key) end
        end
      end
      for z = 1, 4 do
        local score = z ~= 2 and redis.call('ZSCORE', KEYS[z], key)
        if score then
          redis.call('ZREM', KEYS[z], key)
          if record and op ~= 'd' then redis.call('ZADD', KEYS[4 + z], score, key) end
        end
      end
      if record then
        redis.call('HDEL', KEYS[2], key)
        if op ~= 'd' then redis.call('HSET', KEYS[6], key, record) end
      end
      moved = moved + 1
    end
  end
end
reply[1] = moved
return reply
