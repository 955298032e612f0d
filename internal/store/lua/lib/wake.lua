-- Wakes the sweepers; needs clock. Call it after all writes.
--   wake(earliest, shadow, channel, name)  tells all instances that a notice of the partition is due at earliest, in Unix ms; math.huge =
--                                          there is none. name is "<shard> <route>". Nothing is sent if another notice is due earlier, but not
--                                          within the sweepers' look-ahead of 50 ms, which they may have read already
-- Bound two commands.
local function wake(earliest, shadow, channel, name)
  if earliest > now + 50 then
    if earliest == math.huge then return end
    local head = redis.call('ZRANGEBYSCORE', shadow, string.format('(%.0f.99', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    if head and tonumber(head) < earliest then return end
  end
  redis.pcall('PUBLISH', channel, string.format('%.0f', earliest) .. ' ' .. name)
end
