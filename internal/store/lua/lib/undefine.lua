-- Removes a definition of a recurring notice, with its state, from a partition. Needs recurring.
--   undefine(shadow, key)
-- Bound three commands.
local function undefine(shadow, key)
  redis.call('HDEL', beside(shadow, 'recurring'), key)
  redis.call('ZREM', beside(shadow, 'definitions'), key)
  redis.call('ZREM', beside(shadow, 'ticks'), key)
end
