-- Writes something, whatever the script before it did: WAIT and WAITAOF speak of the last write of their connection, and
-- from Redis 7.2 on a script that only read is none.
-- KEYS  1 confirmed
-- ARGV  none
-- Reply OK
-- Bound one key.
return redis.call('SET', KEYS[1], '')
