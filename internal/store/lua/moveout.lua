-- Exports notices of one prefix from a shard, for another shard of this or another Redis: see package move.
-- KEYS  1 shadow  2 records  3 dead  4 settled  5 moving  the last: layout
-- ARGV  1 claim prefix  2 the target's tag  3 prefix  4 maximum bytes of records
--       5 the last batch that the target has imported
--       6 "" = to a shard of this Redis; to another Redis: notices due up to so many ms ago, or within so many ms, stay
--       7 mode of timers: to another Redis the own timers are deleted
--       8 wake channel  9 "<shard> <route>", then keys
-- Reply {number, held, reported, soon, key, text…}: the batch's number; how many notices stay because they are claimed or their claim
--       has expired, because they await a report, and because they are due soon; then the arguments of movein.lua. {0} = another
--       batch is in transit, and nothing was done
-- PARTS score record leases order order/marks order/places order/finish held clock timer disarm ends expiring wake
-- Bound the keys given; ARGV[4] bytes, exceeded by one record.
-- A batch is identified by its number, which only grows. Only one batch is in transit at a time, so the target compares the number
-- with the last one it has imported. The number is at least the time in µs: a Redis that has lost a batch with its number does not
-- assign the number again, as the target would take the new batch for an imported one. ARGV[5] covers a failover in a cluster that
-- has lost the last numbers in the source and not in the target.
-- Notices that leave for another Redis are marked as being there. The successors of notices that leave a sequence may be due now.
local call = redis.call
if call('EXISTS', KEYS[5]) == 1 then return {0} end
local near, away = tonumber(ARGV[6]), {}
local bytes = tonumber(ARGV[4])
local reply, gone = {0, 0, 0, 0}, {}
local q = order(KEYS[1], t)
local keys, claims = {unpack(ARGV, 10)}, {}
for i, key in ipairs(keys) do claims[i] = ARGV[1] .. key end

if #keys > 0 then
  local held_by = call('MGET', unpack(claims))
  local at, died = call('ZMSCORE', KEYS[1], unpack(keys)), call('ZMSCORE', KEYS[3], unpack(keys))
  local ended = call('ZMSCORE', KEYS[4], unpack(keys))
  for i, key in ipairs(keys) do
    local record = bytes > 0 and call('HGET', KEYS[2], key)
    if record then
      local score = at[i] and tonumber(at[i]) or 0
      if held_by[i] and string.sub(held_by[i], 1, 7) == 'report:' then
        reply[3] = reply[3] + 1
      elseif held_by[i] or leases(score) > 0 then
        reply[2] = reply[2] + 1
      elseif near and at[i] and score > now - near and score <= now + near then
        reply[4] = reply[4] + 1
      else
        bytes = bytes - #record
        gone[#gone + 1] = key
        reply[#reply + 1] = key
        -- A parked notice may start at once where it arrives.
        local leaves = q and q.waits(key) and string.format('%.0f', now) .. '.5' or at[i]
        local position = q and q.position(key)
        if q then q.leave(key) end
        local pause = unhold(KEYS[1], key, at[i])
        if ends(record) then watch(KEYS[1], key, nil) end
        reply[#reply + 1] = (leaves or '-') .. ' ' .. (died[i] or '-') .. ' ' .. (ended[i] or '-') ..
          (position and '@' .. position or '') .. (pause and '~' .. pause or '') .. ' ' .. record
        if near then
          away[#away + 1] = key
          away[#away + 1] = at[i] or died[i] and 'dead' or 'settled'
          disarm(ARGV[7], key, at[i])
        end
      end
    end
  end
end
if #gone > 0 then
  reply[1] = math.max(tonumber(call('HGET', KEYS[#KEYS], 'batches') or 0) + 1, tonumber(ARGV[5]) + 1, t[1] * 1000000 + t[2])
  call('HSET', KEYS[#KEYS], 'batches', string.format('%.0f', reply[1]))
  call('HSET', KEYS[5], '', string.format('%.0f', reply[1]) .. ' ' .. ARGV[2] .. ' ' .. ARGV[3], unpack(reply, 5))
  if near then call('HSET', string.sub(KEYS[#KEYS], 1, -7) .. 'elsewhere', unpack(away)) end
  call('HDEL', KEYS[2], unpack(gone))
  for _, z in ipairs({1, 3, 4}) do call('ZREM', KEYS[z], unpack(gone)) end
  if q and q.finish() then wake(now, KEYS[1], ARGV[8], ARGV[9]) end
end
return reply
