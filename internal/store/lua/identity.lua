-- Gives the data of a Redis and namespace an identity, once.
-- KEYS  1 notifier:meta
-- ARGV  1 the identity to write if there is none
-- Reply the identity that is stored; "" = no layout is stored, and nothing was written
-- Bound two fields.
-- The first instance writes the layout before this call. Without a layout the hash may be of another program.
if redis.call('HEXISTS', KEYS[1], 'layout') == 0 then return '' end
redis.call('HSETNX', KEYS[1], 'id', ARGV[1])
return redis.call('HGET', KEYS[1], 'id')
