-- Gives the data of a Redis and namespace an identity, once.
-- KEYS  1 notifier:meta
-- ARGV  1 the identity to write if there is none
-- Reply the identity that is stored; "" = no layout is stored, and nothing was written
-- Bound two fields.
-- Instances take a hash without a layout for data of another program, and refuse to start.
if redis.call('HEXISTS', KEYS[1], 'layout') == 0 then return '' end
redis.call('HSETNX', KEYS[1], 'id', ARGV[1])
return redis.call('HGET', KEYS[1], 'id')
