-- Forgets in a shard what has arrived in another.
-- KEYS  1 shadow  2 records  3 dead  4 settled  5 moving  the last: layout
-- ARGV  1 the batch's number, then the keys of those that are to stay here
-- Reply {1}, or {0} = the batch is not on its way any more, and nothing was done
-- Bound the batch.
local call, match = redis.call, string.match
if match(call('HGET', KEYS[5], '') or '', '^%d+') ~= ARGV[1] then return {0} end
for i = 2, #ARGV do
  local key = ARGV[i]
  local what = call('HGET', KEYS[5], key)
  call('HDEL', string.sub(KEYS[#KEYS], 1, -7) .. 'elsewhere', key)
  if what and call('HEXISTS', KEYS[2], key) == 0 then
    local at, died, ended, record = match(what, '^(%S+) (%S+) (%S+) (.*)$')
    call('HSET', KEYS[2], key, record)
    for z, score in pairs({[1] = at, [3] = died, [4] = ended}) do
      if score ~= '-' then call('ZADD', KEYS[z], score, key) end
    end
  end
end
call('DEL', KEYS[5])
return {1}
