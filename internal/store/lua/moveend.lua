-- Commits a batch: deletes its notices in their source shard, after their import by the target shard.
-- KEYS  1 shadow  2 records  3 dead  4 settled  5 moving  the last: layout
-- ARGV  1 the batch's number  2 wake channel  3 "<shard> <route>", then the keys of the notices that stay in this shard
-- Reply {1}, or {0} = the batch is not in transit any more, and nothing was done
-- PARTS score record clock order order/marks order/places order/finish held hold ends expiring wake
-- Bound the batch.
-- No sweeper knows a notice that was in transit and stays.
local call, match = redis.call, string.match
local q, earliest = order(KEYS[1], t), math.huge
if match(call('HGET', KEYS[5], '') or '', '^%d+') ~= ARGV[1] then return {0} end
for i = 4, #ARGV do
  local key = ARGV[i]
  local state = call('HGET', KEYS[5], key)
  call('HDEL', string.sub(KEYS[#KEYS], 1, -7) .. 'elsewhere', key)
  if state and call('HEXISTS', KEYS[2], key) == 0 then
    local at, died, ended, position, pause, record = match(state, '^(%S+) (%S+) ([^ @~]+)@?(%x*)~?(%S*) (.*)$')
    if q and position ~= '' then q.put(key, position) end
    if pause ~= '' then hold(KEYS[1], key, pause, at) end
    if at ~= '-' then earliest = math.min(earliest, math.floor(at)) end
    if at ~= '-' and ends(record) then watch(KEYS[1], key, ends(record)) end
    call('HSET', KEYS[2], key, record)
    for z, score in pairs({[1] = at, [3] = died, [4] = ended}) do
      if score ~= '-' then call('ZADD', KEYS[z], score, key) end
    end
  end
end
call('DEL', KEYS[5])
if q and q.finish() then earliest = now end
wake(earliest, KEYS[1], ARGV[2], ARGV[3])
alarm(KEYS[1], ARGV[2], ARGV[3])
return {1}
