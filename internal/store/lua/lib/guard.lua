-- Refuses a script of an instance that does not know the current layout. It is added before each script that writes notices or looks
-- them up by key; see meta.go.
-- KEYS  the last: layout
-- Reply an error that begins with LAYOUT, and nothing is written, if the layout, shard count or prefixes of the shard differ from
--       those that the instance knows. meta.go replaces <state>.
-- Bound one field.
if redis.call('HGET', KEYS[#KEYS], 'state') ~= '<state>' then
  return redis.error_reply('LAYOUT has changed')
end
