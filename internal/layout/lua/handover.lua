-- Stands in front of each script that ends notices: hands what has ended over to history; see handover.go.
-- handover(to, shadow, time) makes the function that does it: to is "<n> <host>", how many endings the shard holds at most and
-- the host that the route calls ("-" = each notice's own, or none), shadow the partition's, time what Redis gave.
-- What it makes is called for each ending with how, key, record as it was at the end and, if it is not the partition's, the
-- shadow it lay under, and at last without arguments, which writes them. How is d delivered, x dead, c cancelled, r replaced; C
-- and R if it was dead before.
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
