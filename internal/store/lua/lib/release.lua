-- Releases held notices: gives them scores at which they are claimed again; needs clock and score. See package receivers.
--   release(shadow, keys, start, over, part)  spreads the scores evenly from start over so many ms, none before now. part is a
--     number from 0 to 1, the place of each notice in its part of that time. Without start a single notice is due now, and several are
--     spread over 10 ms for each pending notice of the partition, at most a minute. The caller has removed the notices from the list.
--     Returns the earliest new time in ms
-- The new score keeps the cause "paused". The due time, the attempts and the position in a sequence stay. The next claim decides
-- whether the receiver is still paused.
-- Bound one command.
local function release(shadow, keys, start, over, part)
  if not start then
    start, over, part = now, #keys > 1 and math.min(10 * redis.call('ZCARD', shadow), 60000) or 0, 0.5
  end
  local moves, earliest = {}, math.huge
  for i, key in ipairs(keys) do
    local at = math.max(now, start + math.floor((i - 1 + part) / #keys * over))
    moves[2 * i - 1], moves[2 * i] = string.format('%.17g', at + paused), key
    if at < earliest then earliest = at end
  end
  if #moves > 0 then redis.call('ZADD', shadow, unpack(moves)) end
  return earliest
end
