-- Stands in front of each script that writes notices or looks for them by key; see meta.go.
-- KEYS  the last: layout
-- Reply an error that begins with LAYOUT, and nothing is done, unless layout, shard count and prefixes of the shard are those
--       that this instance knows. <state> is put in by meta.go.
-- Bound one field.
if redis.call('HGET', KEYS[#KEYS], 'state') ~= '<state>' then
  return redis.error_reply('LAYOUT is not what this instance knows')
end
