-- Takes notices of one prefix out of a former shard, on their way to another: see package move.
-- KEYS  1 shadow  2 records  3 dead  4 settled  5 moving  the last: layout
-- ARGV  1 claim prefix  2 the other shard's tag  3 prefix  4 at most so many bytes of records
--       5 the last batch that the other shard knows of, then keys
-- Reply {number, held, key, what…}: the batch's number, how many stay because they are claimed, or were, or await a report, and
--       what movein.lua takes of each; {0} = another batch is on its way, and nothing was done
-- Bound the keys given; ARGV[4] bytes, overshot by one record.
-- A batch is told from others by its number, which only grows. There is one at a time, so that the other shard knows by the
-- last number which it has. A failover in a cluster may have forgotten the last numbers here, and not there.
local call = redis.call
if call('EXISTS', KEYS[5]) == 1 then return {0} end
local bytes, held = tonumber(ARGV[4]), 0
local reply, gone = {0, 0}, {}
for i = 6, #ARGV do
  local key = ARGV[i]
  local record = bytes > 0 and call('HGET', KEYS[2], key)
  if record then
    local at = call('ZSCORE', KEYS[1], key)
    local lapses = at and tonumber(at) % 1 or 0
    if call('EXISTS', ARGV[1] .. key) == 1 or lapses > 0 and lapses < 0.49 then
      held = held + 1
    else
      bytes = bytes - #record
      gone[#gone + 1] = key
      reply[#reply + 1] = key
      reply[#reply + 1] = (at or '-') .. ' ' .. (call('ZSCORE', KEYS[3], key) or '-') .. ' ' ..
        (call('ZSCORE', KEYS[4], key) or '-') .. ' ' .. record
    end
  end
end
reply[2] = held
if #gone > 0 then
  reply[1] = math.max(tonumber(call('HGET', KEYS[#KEYS], 'batches') or 0), tonumber(ARGV[5])) + 1
  call('HSET', KEYS[#KEYS], 'batches', string.format('%.0f', reply[1]))
  call('HSET', KEYS[5], '', string.format('%.0f', reply[1]) .. ' ' .. ARGV[2] .. ' ' .. ARGV[3], unpack(reply, 3))
  call('HDEL', KEYS[2], unpack(gone))
  for _, z in ipairs({1, 3, 4}) do call('ZREM', KEYS[z], unpack(gone)) end
end
return reply
