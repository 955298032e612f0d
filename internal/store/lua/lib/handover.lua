-- Appends finalized notices to the outbox of their shard. It is added before each script that finalizes notices; see outbox.go.
-- handover(to, shadow, time) returns a function. to is "<n> <host>": the outbox's maximum length, and the host that the route calls
-- ("-" = each notice has its own, or none). shadow is the partition's, time is the reply of TIME.
-- That function is called for each finalized notice with how, key, the final record and, if the notice was stored under another
-- prefix, the shadow of that prefix. The last call, without arguments, writes the entries. how is d delivered, x dead, c cancelled,
-- r replaced; C and R if the notice was dead before.
-- Bound two commands a script.
local function handover(to, shadow, time)
  local most, host = string.match(to, '^(%d+) (%S+)$')
  local base, prefix = string.match(shadow, '^(.-}:)shadow:(.+)$')
  local at = ' ' .. time[1] .. string.format('%06d', time[2]) .. ' '
  local middle = at .. prefix .. ' ' .. host .. ' '
  local list, n = {}, 0
  return function(how, key, record, under)
    if how then
      n = n + 1
      list[n] = how .. (under and at .. string.match(under, '}:shadow:(.+)$') .. ' - ' or middle) .. key .. ' ' .. record
    elseif n > 0 then
      local over = redis.call('RPUSH', base .. 'ended', unpack(list)) - most
      if over > 0 then
        redis.call('LTRIM', base .. 'ended', over, -1)
        redis.call('HINCRBY', base .. 'history', 'lost', over)
      end
    end
  end
end
