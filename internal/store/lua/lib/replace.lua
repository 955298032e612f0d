-- Takes an old notice out of its state before a new one replaces it; needs held, record, generation, successor and ends.
--   replace(names, k, claim, key, record, q, hand)  names from k on are shadow, records, dead and settled of its prefix, the new notice is
--     stored under the prefix of the first four. q and hand are those of order.lua, for the old prefix, and of handover.lua, or nil.
--     Returns the score in the shadow, nil if the old notice was not pending; and the generation of the new one
-- Bound a few commands.
local function replace(names, k, claim, key, record, q, hand)
  -- INSIDE
  local call = redis.call
  local score = call('ZSCORE', names[k], key)
  if q then q.leave(key) end
  call('DEL', claim .. key)
  unhold(names[k], key, score)
  if ends(record) then
    local index = string.gsub(names[k], '}:shadow:', '}:expiring:', 1)
    call('ZREM', index, key)
  end
  local died, ended = call('ZREM', names[k + 2], key), call('ZREM', names[k + 3], key)
  if k > 1 then
    call('HDEL', names[k + 1], key)
    call('ZREM', names[k], key)
  end
  if hand and ended == 0 then hand(died == 1 and 'R' or 'r', key, record, k > 1 and names[k]) end
  return score, successor(record)
end
