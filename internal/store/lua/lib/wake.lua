-- Wakes the sweepers; needs clock. Call it after all writes.
--   wake(earliest, shadow, channel, name, written)
--     tells all instances that a notice of the partition with that shadow is due at earliest, in Unix ms; math.huge = there is none.
--     name is "<shard> <route>" with any route. Nothing is sent if another notice is due earlier, but not within the sweepers'
--     look-ahead of 50 ms, which they may have read already. With written, the set of the keys that the script has written, nothing is
--     sent either if the first of the notices due at earliest is not in it: their time has been told
-- Bound two commands.
local function wake(earliest, shadow, channel, name, written)
  if earliest > now + 50 then
    if earliest == math.huge then return end
    local head = redis.call('ZRANGEBYSCORE', shadow, string.format('(%.0f.99', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if head[2] and (tonumber(head[2]) < earliest or written and not written[head[1]]) then return end
  end
  local partition = string.match(name, '^%d+ ') .. string.match(shadow, '}:shadow:(.+)$')
  redis.pcall('PUBLISH', channel, string.format('%.0f', earliest) .. ' ' .. partition)
end
